// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/test/programs"
)

// testExamples runs a single task, a gang, a chain, preemption, topology, shares, slices, tasks that
// wait, a MovePlan, roles, an array, queues and a GPU that breaks.
func (r *release) testExamples(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	args := append([]string{"up", "--examples", "--once", "--dir=" + dir, "--controller-arg=--retry-backoff=1s"}, r.args(t)...)
	output, err := exec.CommandContext(t.Context(), programs.Binary("localcluster"), args...).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Every example ended as expected.") {
		t.Errorf("%v\n%s", err, output)
	}
}

// testStockScheduler runs tasks Pod by Pod with the kube-scheduler in localcluster, which emulates the
// API server's version.
func (r *release) testStockScheduler(t *testing.T) {
	c := r.start(t, "--scheduler=stock", "--nodes=name=h100,model=h100-80gb-hbm3,count=1,gpus=4,gpu-memory=81559Mi")
	c.kubectl(t, "gputask", "run", "single", "--gpu=h100-80gb-hbm3", "--gpu-amount=4")
	c.waitForTask(t, "single", "Succeeded")
}
