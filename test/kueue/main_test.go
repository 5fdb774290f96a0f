// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// raceController is gpu-controller with the race detector.
	raceController = "gpu-controller-race"
	kueueProgram   = "kueue"
	auditLog       = "audit.json"
)

// shared is the cluster with Kueue and gpu-controller that all tests use. TestMain sets it before
// any test runs.
var shared *testCluster

// testCluster is a local cluster with clients that have all rights.
type testCluster struct {
	*cluster.Cluster
	// dir is the tests' directory.
	dir     string
	config  *rest.Config
	kube    kubernetes.Interface
	tasks   clientset.Interface
	dynamic dynamic.Interface
	// kueue and controller are the programs that run.
	kueue, controller *program
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpu-controller-kueue-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if err := build(); err != nil {
		return fail(err)
	}
	shared, err = start(dir)
	if err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		code = fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "kueue:", err)
	return 1
}

// build builds the programs under test and Kueue; it is quick if they are up to date.
func build() error {
	return programs.Build(programs.Ours(), programs.WithRace(raceController, "."), programs.Command{Args: []string{
		"go", "build", "-C", filepath.Join("test", "kueue", "kueued"), "-ldflags", "-s -w", "-o", programs.Binary(kueueProgram), "sigs.k8s.io/kueue/cmd/kueue",
	}})
}

// start starts a cluster of two leaves of four nodes with 8 GPUs each, Kueue and gpu-controller.
func start(dir string) (*testCluster, error) {
	running, err := cluster.Start(context.Background(), programs.Binary("localcluster"), filepath.Join(dir, "cluster"), os.Stderr,
		"--pod-duration=1s", "--audit-log="+filepath.Join(dir, auditLog), "--nodes=name=h100,model=h100-80gb-hbm3,count=8,gpus=8,nodes-per-leaf=4")
	if err != nil {
		return nil, err
	}
	c := &testCluster{Cluster: running, dir: dir}
	if err := errors.Join(c.connect()); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	if err := c.startPrograms(dir); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

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

func (c *testCluster) startPrograms(dir string) (err error) {
	ctx := context.Background()
	if err := c.apply(ctx, filepath.Join(programs.Root(), "artifacts", "kueue")); err != nil {
		return err
	}
	if c.kueue, err = c.startKueue(ctx, dir); err != nil {
		return err
	}
	return c.startController()
}

// startController starts gpu-controller, with the rights that artifacts/rbac and artifacts/kueue
// give it. Kueue is installed already: gpu-controller, which looks for it once a minute, finds it at
// once.
func (c *testCluster) startController() (err error) {
	c.controller, err = startProgram(programs.Binary(raceController), "--kubeconfig="+filepath.Join(c.Dir, "gpu-controller.kubeconfig"),
		"--leader-elect=false", "--metrics-bind-address=0", "--retry-backoff=1s",
		"--kueue-gpu-fit", "--kueue-gpu-fit-patience=3s", "--kueue-gpu-fit-retry=2s", "-v=2")
	return err
}

func (c *testCluster) stop() error {
	var errs []error
	for _, one := range []*program{c.controller, c.kueue} {
		if one != nil {
			errs = append(errs, one.stop())
		}
	}
	return errors.Join(append(errs, c.Stop())...)
}

// apply applies a kustomization with localcluster's kubectl.
func (c *testCluster) apply(ctx context.Context, folder string) error {
	command := exec.CommandContext(ctx, programs.Binary("localcluster"), "kubectl", "apply", "-k", folder)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+c.Dir)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("applying %s: %w\n%s", folder, err, output)
	}
	return nil
}
