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
	"k8s.io/client-go/tools/clientcmd"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

const (
	// startLimit is how long a cluster may take to become ready on a busy
	// machine.
	startLimit = 3 * time.Minute
	stopLimit  = time.Minute
	pollEvery  = 50 * time.Millisecond
)

// shared is the cluster that most tests use. TestMain sets it before any test
// runs.
var shared *testCluster

// testCluster is a local cluster with clients that have all rights.
type testCluster struct {
	dir     string
	process *exec.Cmd
	// ended is closed when the process has ended; err is how.
	ended   chan struct{}
	err     error
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
	if err := shared.stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// root is the folder of the repository.
func root() string { return filepath.Join("..", "..") }

func binary(name string) string {
	path, err := filepath.Abs(filepath.Join(root(), "bin", name))
	if err != nil {
		return name
	}
	return path
}

// raceController is the controller with the race detector.
const raceController = "gpu-controller-race"

// build builds the programs under test; if they are up to date it takes a
// moment.
func build() error {
	for _, args := range [][]string{
		{"make", "build"},
		{"go", "build", "-race", "-o", binary(raceController), "."},
	} {
		command := exec.Command(args[0], args[1:]...)
		command.Dir = root()
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, output)
		}
	}
	return nil
}

// startCluster runs localcluster without a controller and returns when it is
// ready.
func startCluster(dir string, output io.Writer, args ...string) (*testCluster, error) {
	args = append([]string{"up", "--dir=" + dir, "--controller=none", "--pod-duration=1s"}, args...)
	command := exec.Command(binary("localcluster"), args...)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return nil, err
	}
	cluster := &testCluster{dir: dir, process: command, ended: make(chan struct{})}
	go func() {
		cluster.err = command.Wait()
		close(cluster.ended)
	}()
	if err := cluster.connect(); err != nil {
		return nil, errors.Join(err, cluster.stop())
	}
	return cluster, nil
}

// waitUntilReady waits for the kubeconfig, which appears when the cluster is
// ready.
func (c *testCluster) waitUntilReady() error {
	deadline := time.After(startLimit)
	for {
		if _, err := os.Stat(c.kubeconfig()); err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("localcluster ended before the cluster was ready: %w", c.err)
		case <-deadline:
			return fmt.Errorf("the cluster was not ready after %v", startLimit)
		case <-time.After(pollEvery):
		}
	}
}

// connect makes the clients once the cluster is ready.
func (c *testCluster) connect() error {
	if err := c.waitUntilReady(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	c.config = config
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.tasks, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(config)
	return err
}

func (c *testCluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// controllerKubeconfig has the rights that artifacts/rbac gives the controller.
func (c *testCluster) controllerKubeconfig() string {
	return filepath.Join(c.dir, "gpu-controller.kubeconfig")
}

// stop stops the cluster and returns how its process ended.
func (c *testCluster) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.ended:
		return c.err
	case <-time.After(stopLimit):
		_ = c.process.Process.Kill()
		return fmt.Errorf("localcluster did not stop within %v", stopLimit)
	}
}

// kubectl runs localcluster's kubectl and returns what it prints.
func (c *testCluster) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, binary("localcluster"), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+c.dir)
	command.Dir = root()
	output, err := command.CombinedOutput()
	return string(output), err
}

// stopProcess asks a process to stop and returns how it ended.
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
