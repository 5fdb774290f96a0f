// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func after(task *v1.GPUTask, dependencies ...v1.Dependency) *v1.GPUTask {
	task.Spec.DependsOn = dependencies
	return task
}

func TestAChainRunsInItsOrder(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(after(newTask("third", 1, "1s"), v1.Dependency{Name: "second"}))
	s.waitForMessage("third", `waiting for GPUTask "second", which does not exist in this namespace`)
	s.create(after(newTask("second", 2, "1s"), v1.Dependency{Name: "first"}))
	s.waitForMessage("third", `waiting for GPUTask "second" to succeed`)
	if pods := s.podsOf("second"); len(pods) != 0 {
		t.Errorf("%d Pods were created before the dependency was met", len(pods))
	}
	s.create(newTask("first", 1, "1s"))
	third := s.waitForPhase("third", v1.PhaseSucceeded)
	second := s.get("second")
	if third.Status.StartTime.Before(second.Status.CompletionTime) {
		t.Errorf("third started at %v, second ended at %v", third.Status.StartTime, second.Status.CompletionTime)
	}
}

func TestADependencyMayBeThatATaskRuns(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("server", 1, "forever"))
	s.create(after(newTask("client", 1, "1s"), v1.Dependency{Name: "server", Condition: v1.DependencyRunning}))
	s.waitForPhase("client", v1.PhaseSucceeded)
	if phase := s.get("server").Status.Phase; phase != v1.PhaseRunning {
		t.Errorf("the server is %s", phase)
	}
}

func TestAFailedDependency(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	bad := newTask("bad", 1, "1s", failAttempts, "9")
	bad.Spec.BackoffLimit = ptr.To[int32](0)
	s.create(bad)
	s.create(after(newTask("fails", 1, "1s"), v1.Dependency{Name: "bad"}))
	s.create(after(newTask("fails-too", 1, "1s"), v1.Dependency{Name: "fails"}))
	s.create(after(newTask("ignores", 1, "1s"), v1.Dependency{Name: "bad", OnFailure: v1.DependencyIgnore}))
	s.create(after(newTask("cleans-up", 1, "1s"), v1.Dependency{Name: "bad", Condition: v1.DependencyFinished}))
	s.waitForPhase("fails", v1.PhaseFailed)
	s.waitForPhase("fails-too", v1.PhaseFailed)
	s.waitForPhase("ignores", v1.PhaseSucceeded)
	s.waitForPhase("cleans-up", v1.PhaseSucceeded)
	s.waitForMessage("fails", `GPUTask "bad", which this task depends on, failed`)
}

func TestACycleIsExplainedAndCanBeOpened(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	a := s.create(after(newTask("a", 1, "1s"), v1.Dependency{Name: "b"}))
	s.create(after(newTask("b", 1, "1s"), v1.Dependency{Name: "c"}))
	s.create(after(newTask("c", 1, "1s"), v1.Dependency{Name: "a"}))
	s.waitForMessage("a", "dependency cycle a → b → c → a: delete one of these tasks")
	s.waitForMessage("b", "dependency cycle b → c → a → b")
	s.waitForEvent(a, "DependencyCycle")
	if err := s.tasks().Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForMessage("a", `waiting for GPUTask "b" to succeed`)
	s.waitForMessage("b", `waiting for GPUTask "c", which does not exist`)
	s.create(newTask("c", 1, "1s"))
	s.waitForPhase("a", v1.PhaseSucceeded)
}

func TestATaskIsKeptUntilWhoWaitsForItHasSeenItsEnd(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(after(newTask("second", 1, "1s"), v1.Dependency{Name: "slow"}, v1.Dependency{Name: "first"}))
	first := newTask("first", 1, "1s")
	first.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	s.create(first)
	s.waitForPhase("first", v1.PhaseSucceeded)
	s.create(newTask("slow", 1, "2s"))
	s.waitForPhase("second", v1.PhaseSucceeded)
	s.eventually("first is gone", func() (bool, string) {
		list, err := s.tasks().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=first"})
		return err == nil && len(list.Items) == 0, "it is there"
	})
}
