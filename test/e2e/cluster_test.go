// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	stopLimit = time.Minute
	pollEvery = 50 * time.Millisecond
)

// shared is the cluster that most tests use. TestMain sets it before any test
// runs.
var shared *testCluster

// testCluster is a local cluster with clients that have all rights.
type testCluster struct {
	*cluster.Cluster
	config  *rest.Config
	kube    kubernetes.Interface
	tasks   clientset.Interface
	dynamic dynamic.Interface
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpu-controller-e2e-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if err := build(); err != nil {
		return fail(err)
	}
	shared, err = startCluster(filepath.Join(dir, "cluster"), os.Stderr,
		"--nodes=name=h100,model=h100-80gb-hbm3,count=24,gpus=8,gpu-memory=81559Mi,pool=training",
		"--nodes=name=rtx4090,model=rtx4090,count=2,gpus=2,gpu-memory=24564Mi,pool=research")
	if err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// raceController is the controller with the race detector.
const raceController = "gpu-controller-race"

// build builds the programs under test; it is quick if they are up to date.
func build() error {
	return programs.Build(programs.Ours(), programs.WithRace(raceController, "."))
}

// startCluster runs localcluster and returns when it is ready.
func startCluster(dir string, output io.Writer, args ...string) (*testCluster, error) {
	running, err := cluster.Start(context.Background(), programs.Binary("localcluster"), dir, output, append([]string{"--pod-duration=1s"}, args...)...)
	if err != nil {
		return nil, err
	}
	c := &testCluster{Cluster: running}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// connect makes the clients.
func (c *testCluster) connect() (err error) {
	if c.config, err = c.Config(); err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if c.tasks, err = clientset.NewForConfig(c.config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(c.config)
	return err
}

// controllerKubeconfig has the rights that artifacts/rbac gives the controller.
func (c *testCluster) controllerKubeconfig() string {
	return filepath.Join(c.Dir, "gpu-controller.kubeconfig")
}

// kubectl runs localcluster's kubectl and returns what it prints.
func (c *testCluster) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, programs.Binary("localcluster"), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+c.Dir)
	command.Dir = programs.Root()
	output, err := command.CombinedOutput()
	return string(output), err
}

// stopProcess terminates a process gracefully and returns its error.
func stopProcess(command *exec.Cmd) error {
	if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(stopLimit):
		_ = command.Process.Kill()
		return fmt.Errorf("%s did not stop within %v", command.Path, stopLimit)
	}
}
