// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// shared is the cluster in which all causes are made. TestMain sets it before any test runs.
var shared *testCluster

// testCluster is a local cluster with clients that have all rights.
type testCluster struct {
	*cluster.Cluster
	kube    kubernetes.Interface
	tasks   clientset.Interface
	dynamic dynamic.Interface
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpu-controller-verdict-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if err := programs.Build(programs.Ours()); err != nil {
		return fail(err)
	}
	if shared, err = start(filepath.Join(dir, "cluster")); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "verdict:", err)
	return 1
}

// start starts a cluster with nodes that will be full, and nodes that stay free.
func start(dir string) (*testCluster, error) {
	running, err := cluster.Start(context.Background(), programs.Binary("localcluster"), dir, os.Stderr,
		"--controller="+programs.Binary("gpu-controller"), "--controller-arg=--retry-backoff=1h", "--controller-arg=--max-retry-backoff=1h", "--pod-duration=1h",
		"--nodes=name=full,model=h100-80gb-hbm3,count=2,gpus=8,gpu-memory=81559Mi,pool=training",
		"--nodes=name=free,model=rtx4090,count=2,gpus=8,gpu-memory=24564Mi,pool=research",
		"--nodes=name=cordoned,model=l40s,count=1,gpus=8,gpu-memory=46068Mi,pool=serving",
		"--nodes=name=dead,model=l4,count=1,gpus=8,gpu-memory=23034Mi,pool=serving",
		"--nodes=name=kept,model=a10,count=1,gpus=8,gpu-memory=23028Mi,pool=serving")
	if err != nil {
		return nil, err
	}
	c := &testCluster{Cluster: running}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *testCluster) connect() error {
	config, err := c.Config()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.tasks, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(config)
	return err
}
