// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestATaskLeavesANodeThatIsNoLongerOfItsModel(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t, "--reschedule-period=1s", "--reschedule-threshold=0")
	node := s.addNode("changes", 4)
	task := newTask("train", 1, "forever")
	task.Spec.GPU = node.Labels[v1.LabelGPUModel]
	created := s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")[0].UID
	s.patchNode(node.Name, `{"metadata": {"labels": {"`, v1.LabelGPUModel, `": "another"}}}`)
	s.waitABit(3 * time.Second)
	if pods := s.podsOf("train"); len(pods) != 1 || pods[0].UID != before {
		t.Fatal("the task was evicted although it fits nowhere else")
	}
	spare := s.addNode("spare", 4)
	s.waitForPods("train", "it runs on the other node", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName == spare.Name && pods[0].Status.Phase == corev1.PodRunning
	})
	s.waitForEvent(created, "Rescheduled")
	if restarts := s.get("train").Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
}

func TestACordonMovesSingleTasksButNoRunningGang(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t, "--reschedule-period=1s", "--reschedule-threshold=0")
	node := s.addNode("cordoned", 8)
	for name, replicas := range map[string]int32{"single": 1, "gang": 2, "guarded": 1} {
		task := newTask(name, replicas, "forever")
		task.Spec.GPU = node.Labels[v1.LabelGPUModel]
		if name == "guarded" {
			task.Spec.Template.Labels = map[string]string{"guarded": "yes"}
		}
		s.create(task)
		s.waitForPhase(name, v1.PhaseRunning)
	}
	never := intstr.FromInt32(0)
	_, err := s.cluster.kube.PolicyV1().PodDisruptionBudgets(s.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the disruption budget is in force", func() (bool, string) {
		budget, err := s.cluster.kube.PolicyV1().PodDisruptionBudgets(s.namespace).Get(t.Context(), "guard", metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration > 0, "no status"
	})
	before := map[string]bool{}
	for _, name := range []string{"gang", "guarded"} {
		for _, pod := range s.podsOf(name) {
			before[string(pod.UID)] = true
		}
	}
	spare := s.addNode("spare", 8)
	s.patchNode(node.Name, `{"spec": {"unschedulable": true}}`)
	s.waitForPods("single", "it runs on the other node", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName == spare.Name && pods[0].Status.Phase == corev1.PodRunning
	})
	s.waitABit(2 * time.Second) // two more periods
	for _, name := range []string{"gang", "guarded"} {
		for _, pod := range s.podsOf(name) {
			if !before[string(pod.UID)] {
				t.Errorf("Pod %s was moved", pod.Name)
			}
		}
	}
}

func TestATaskThatWaitsForLongIsPlacedAnew(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t, "--reschedule-period=2s", "--reschedule-mode=recreate")
	task := newTask("train", 2, "1s")
	task.Spec.GPU = s.namespace // no node has it yet
	s.create(task)
	first := s.waitForPods("train", "there are two", func(pods []corev1.Pod) bool { return len(pods) == 2 })
	s.waitForPods("train", "they are new", func(pods []corev1.Pod) bool {
		return len(pods) == 2 && pods[0].UID != first[0].UID && pods[1].UID != first[1].UID
	})
	s.addNode("comes", 2)
	if restarts := s.waitForPhase("train", v1.PhaseSucceeded).Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
}
