// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// TestRoomIsMadeWithKubernetesOwnScheduler has two nodes, each with half of its GPUs free.
// kube-scheduler does not enforce reservations: the Pod that moves only prefers its
// destination.
func TestRoomIsMadeWithKubernetesOwnScheduler(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--scheduler=stock", "--nodes=name=h100,model=h100-80gb-hbm3,count=2,gpus=4,gpu-memory=81559Mi")
	first := s.startController()
	for name, other := range map[string]string{"moves": "h100-1", "stays": "h100-0"} {
		s.patchNode(other, `{"spec": {"unschedulable": true}}`)
		half := newTask(name, 1, "forever")
		half.Spec.GPUAmount = "2"
		if name == "stays" {
			half.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever}
		}
		s.create(half)
		s.waitForPhase(name, v1.PhaseRunning)
		s.patchNode(other, `{"spec": {"unschedulable": false}}`)
	}
	first.kill()
	s.startController("--reschedule-period=1s", "--reschedule-patience=1s", "--reschedule-threshold=0", "--reschedule-approve-cost=1000000")
	big := newTask("big", 1, "forever")
	big.Spec.GPUAmount = "4"
	s.create(big)
	if nodes := s.waitForPhase("big", v1.PhaseRunning).Status.Nodes; len(nodes) != 1 || nodes[0] != "h100-0" {
		t.Errorf("the task of four GPUs runs on %v", nodes)
	}
	s.checkTheOnlyPlan()
	s.waitForPods("moves", "runs on its planned node, by preference", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName == "h100-1" && pods[0].Status.Phase == corev1.PodRunning && prefers(&pods[0], "h100-1")
	})
	if status := s.get("moves").Status; status.Moves != 1 || status.Restarts != 0 {
		t.Errorf("the task that was moved: %+v", status)
	}
	s.eventually("no place is kept any more", func() (bool, string) {
		nodes, err := s.cluster.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range nodes.Items {
			if kept := nodes.Items[i].Annotations[reservation.Annotation]; kept != "" {
				return false, nodes.Items[i].Name + ": " + kept
			}
		}
		return true, ""
	})
}

// checkTheOnlyPlan waits until the only MovePlan is done and has moved one Pod.
func (s *suite) checkTheOnlyPlan() {
	s.Helper()
	s.eventually("the only MovePlan is done", func() (bool, string) {
		plans, err := s.cluster.tasks.FalldioV1().MovePlans().List(s.Context(), metav1.ListOptions{})
		if err != nil || len(plans.Items) != 1 {
			return false, fmt.Sprintf("%v, %+v", err, plans)
		}
		plan := &plans.Items[0]
		isDone := plan.Status.Phase == v1.PlanDone && plan.Status.Moved == 1 && len(plan.Spec.Moves) == 1
		return isDone && plan.Spec.Moves[0].Pod == "moves" && plan.Status.Moves[0].Node == "h100-1", fmt.Sprintf("%+v", plan.Status)
	})
}

// prefers reports whether a Pod's first preference is the node.
func prefers(pod *corev1.Pod, node string) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		if len(term.Preference.MatchFields) == 1 && term.Preference.MatchFields[0].Values[0] == node {
			return true
		}
	}
	return false
}
