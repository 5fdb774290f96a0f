// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestTasksRunWithKubernetesOwnScheduler uses a cluster without gpu-scheduler. Pods are
// scheduled one by one there, and the reasons for waiting are kube-scheduler's.
func TestTasksRunWithKubernetesOwnScheduler(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--scheduler=stock", "--nodes=name=h100,model=h100-80gb-hbm3,count=2,gpus=4,gpu-memory=81559Mi")
	for pid, command := range processesOf(t, s.cluster.Dir) {
		if strings.Contains(command, schedulerProcess) {
			t.Fatalf("process %d is gpu-scheduler: %s", pid, command)
		}
	}
	s.startController()

	gang := newTask("gang", 2, "2s", failAttempts, "1")
	gang.Spec.GPUAmount = "4"
	s.create(gang)
	s.create(after(newTask("single", 1, "1s"), v1.Dependency{Name: "gang"}))
	if nodes := s.waitForPhase("gang", v1.PhaseSucceeded).Status.Nodes; len(nodes) != 2 {
		t.Errorf("2 Pods with 4 GPUs each ran on the nodes %v", nodes)
	}
	s.waitForPhase("single", v1.PhaseSucceeded)
	for _, name := range []string{"gang", "single"} {
		for _, pod := range s.podsOf(name) {
			if pod.Spec.SchedulerName != "default-scheduler" {
				t.Errorf("Pod %s asks for scheduler %s", pod.Name, pod.Spec.SchedulerName)
			}
		}
	}

	s.killComponent("kube-scheduler") // it is restarted
	large := newTask("large", 3, "forever")
	large.Spec.GPUAmount = "4"
	s.create(large)
	s.waitForMessage("large", "Insufficient falldio.com/gpu")
	if running := s.waitForTask("large", "two Pods that run", func(task *v1.GPUTask) bool {
		return task.Status.Running == 2
	}); running.Status.Phase != v1.PhasePending {
		t.Errorf("a task of which two Pods run and one waits is %s", running.Status.Phase)
	}
}

// newSuiteOfItsOwn starts a cluster that is stopped at the end of the test.
func newSuiteOfItsOwn(t *testing.T, args ...string) *suite {
	t.Helper()
	output := &programs.Output{}
	cluster, err := startCluster(filepath.Join(t.TempDir(), "cluster"), output, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.showLogs(t)
		}
		if err := cluster.Stop(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	})
	return &suite{T: t, cluster: cluster, namespace: "default"}
}
