// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// keeper is the finalizer of a program that has something to do before a task goes.
const keeper = "example.com/keeper"

// createKept creates a task with a finalizer, which the end of the test removes.
func (s *suite) createKept(task *v1.GPUTask) {
	s.Helper()
	task.Finalizers = []string{keeper}
	s.create(task)
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		if _, err := s.tasks().Patch(ctx, task.Name, "application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
			s.Errorf("removing the finalizer: %v", err)
		}
	})
}

func (s *suite) delete(name string, propagation metav1.DeletionPropagation) {
	s.Helper()
	if err := s.tasks().Delete(s.Context(), name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		s.Fatal(err)
	}
}

func TestADeletedTaskThatSomebodyKeepsStopsAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	first := s.startController()
	for _, name := range []string{"runs", "foreground", "away", "ends-away"} {
		duration := "forever"
		if name == "ends-away" {
			duration = "2s"
		}
		s.createKept(newTask(name, 2, duration))
		s.waitForPhase(name, v1.PhaseRunning)
	}
	s.delete("runs", metav1.DeletePropagationBackground)
	s.delete("foreground", metav1.DeletePropagationForeground)
	noneLeft := func(pods []corev1.Pod) bool { return len(pods) == 0 }
	for _, name := range []string{"runs", "foreground"} {
		s.waitForPods(name, "none is left", noneLeft)
		task := s.waitForPhase(name, v1.PhaseFailed)
		if status := task.Status; status.Running != 0 || status.Pending != 0 || status.Message != "deleted before it had finished" {
			t.Errorf("GPUTask %s: %+v", name, status)
		}
	}
	first.kill()
	s.delete("away", metav1.DeletePropagationBackground)
	s.waitForPods("ends-away", "they have succeeded", func(pods []corev1.Pod) bool {
		return len(pods) == 2 && pods[0].Status.Phase == corev1.PodSucceeded && pods[1].Status.Phase == corev1.PodSucceeded
	})
	s.delete("ends-away", metav1.DeletePropagationBackground)
	s.startController()
	s.waitForPods("away", "none is left", noneLeft)
	s.waitForPhase("away", v1.PhaseFailed)
	s.waitForPhase("ends-away", v1.PhaseSucceeded)
}

// TestPodsMayOutliveTheirTask: --cascade=orphan leaves them running.
func TestPodsMayOutliveTheirTask(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("train", 1, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")[0].UID
	s.delete("train", metav1.DeletePropagationOrphan)
	pods := s.waitForPods("train", "it has no owner any more", func(pods []corev1.Pod) bool { return len(pods) == 1 && len(pods[0].OwnerReferences) == 0 })
	if pods[0].UID != before || pods[0].DeletionTimestamp != nil {
		t.Error("the Pod was stopped")
	}
}
