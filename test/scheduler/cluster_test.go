// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/pace"
	"falldio.github.io/gpu-controller/test/programs"
)

// binFolder is the folder with the programs under test. By default they are built.
var binFolder = flag.String("bin", "", "the folder of the programs to test; empty builds those of the checkout")

// keepDirs leaves the directories of the clusters, with all logs.
var keepDirs = flag.Bool("keep", false, "keep the directories of the clusters")

// clock measures the time limits: it runs slower on a busy machine.
var clock = pace.Start()

// workDir is the parent directory of the clusters. TestMain sets it.
var workDir string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpu-scheduler-test-")
	if err != nil {
		return fail(err)
	}
	workDir = dir
	if *keepDirs {
		fmt.Fprintln(os.Stderr, "the clusters are in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if err := build(); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := stopClusters(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "scheduler:", err)
	return 1
}

// root is the folder of the repository.
func root() string { return filepath.Join("..", "..") }

func binary(name string) string {
	folder := *binFolder
	if folder == "" {
		folder = filepath.Join(root(), "bin")
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return name
	}
	return path
}

// build builds the programs under test; it is quick if they are up to date.
func build() error {
	if *binFolder != "" {
		return nil
	}
	command := exec.Command("make", "build")
	command.Dir = root()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w\n%s", err, output)
	}
	return nil
}

// testCluster is a local cluster with gpu-controller, and clients that have all
// rights.
type testCluster struct {
	*cluster.Cluster
	kube   kubernetes.Interface
	tasks  clientset.Interface
	output *programs.Output
}

// started are the clusters to be stopped at the end.
var started struct {
	sync.Mutex
	clusters []*testCluster
}

// startCluster runs localcluster and returns when it is ready.
func startCluster(name string, args ...string) (*testCluster, error) {
	c := &testCluster{output: &programs.Output{}}
	args = append([]string{"--keep", "--any-scheduler", "--controller=" + binary("gpu-controller"), "--controller-arg=--retry-backoff=1s"}, args...)
	running, err := cluster.Start(context.Background(), binary("localcluster"), filepath.Join(workDir, name), c.output, args...)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w\n%s", name, err, c.output)
	}
	c.Cluster = running
	started.Lock()
	started.clusters = append(started.clusters, c)
	started.Unlock()
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.tasks, err = clientset.NewForConfig(config)
	return c, err
}

// stopClusters stops the clusters that no test has stopped.
func stopClusters() error {
	started.Lock()
	defer started.Unlock()
	var errs []error
	for _, c := range started.clusters {
		errs = append(errs, c.Stop())
	}
	started.clusters = nil
	return errors.Join(errs...)
}

// stopAfter stops the cluster at the end of the only test that uses it: even an idle
// cluster keeps a small machine busy.
func (c *testCluster) stopAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		started.Lock()
		defer started.Unlock()
		started.clusters = slices.DeleteFunc(started.clusters, func(other *testCluster) bool { return other == c })
		if err := c.Stop(); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
}

// shared is the cluster that most tests use. Its own node is unused.
var shared = sync.OnceValues(func() (*testCluster, error) {
	return startCluster("shared", "--nodes=name=idle,model=idle,count=1,gpus=1,gpu-memory=1024Mi")
})
