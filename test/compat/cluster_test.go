// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/pace"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// limit is how long a test waits for something that normally takes seconds.
	limit     = 2 * time.Minute
	pollEvery = 50 * time.Millisecond
)

// testCluster is a local cluster with another release of Kubernetes, and clients that have all
// rights.
type testCluster struct {
	*cluster.Cluster
	release    *release
	kube       kubernetes.Interface
	tasks      clientset.Interface
	extensions apiextensions.Interface
}

// clock measures the time limits: it runs slower on a busy machine.
var clock = pace.Start()

// args returns the arguments of localcluster for the release.
func (r *release) args(t *testing.T) []string {
	t.Helper()
	args, err := cluster.Programs(r.programs)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// start starts a cluster that runs until the end of the test.
func (r *release) start(t *testing.T, args ...string) *testCluster {
	t.Helper()
	output := &programs.Output{}
	args = append(append(r.args(t), "--controller="+programs.Binary("gpu-controller"), "--controller-arg=--retry-backoff=1s"), args...)
	running, err := cluster.Start(context.Background(), programs.Binary("localcluster"), filepath.Join(t.TempDir(), "cluster"), output, args...)
	if err != nil {
		t.Fatalf("Kubernetes %s: %v\n%s", r.minor, err, output)
	}
	c := &testCluster{Cluster: running, release: r}
	t.Cleanup(func() { c.stop(t, output) })
	config, err := c.Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.tasks, err = clientset.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if c.extensions, err = apiextensions.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// stop stops the cluster. It shows the ends of all logs if the test failed.
func (c *testCluster) stop(t *testing.T, output *programs.Output) {
	t.Helper()
	const lines = 40
	if t.Failed() {
		for name, text := range c.logs(t) {
			all := strings.Split(text, "\n")
			t.Logf("%s:\n%s", name, strings.Join(all[max(0, len(all)-lines):], "\n"))
		}
		t.Logf("output of localcluster:\n%s", output)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// logs returns the logs of all processes by their file names.
func (c *testCluster) logs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Dir, "logs", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		logs[filepath.Base(file)] = string(content)
	}
	return logs
}

// kubectl runs localcluster's kubectl in the folder of the repository and returns what it prints.
func (c *testCluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := c.tryKubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

func (c *testCluster) tryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// Tests also delete with it what they have created, when their context has ended.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), programs.Binary("localcluster"), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+c.Dir)
	command.Dir = programs.Root()
	output, err := command.CombinedOutput()
	return string(output), err
}

// eventually waits until a condition holds; its text describes the current state otherwise.
func (c *testCluster) eventually(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	for begin := clock.Elapsed(); ; time.Sleep(pollEvery) {
		ok, instead := holds()
		if ok {
			return
		}
		if clock.Elapsed()-begin > limit {
			t.Fatalf("not within %v: %s; instead: %s", limit, what, instead)
		}
	}
}

// waitForTask waits until a task of the default namespace is in a phase.
func (c *testCluster) waitForTask(t *testing.T, name, phase string) {
	t.Helper()
	c.eventually(t, fmt.Sprintf("%s is %s", name, phase), func() (bool, string) {
		output, err := c.tryKubectl(t, "get", "gputask", name, "--output=jsonpath={.status.phase} {.status.message}")
		return err == nil && strings.HasPrefix(output, phase+" "), output
	})
}
