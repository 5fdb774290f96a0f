// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// destinationWeight is the maximum weight.
const destinationWeight = 100

// Destination returns the node to which one of the plans moves a Pod; "" if none does.
// owner is the reference to the Pod's task.
func Destination(plans []*v1.MovePlan, pod *corev1.Pod, owner *metav1.OwnerReference) string {
	for _, plan := range plans {
		for _, move := range underWay(plan) {
			if move.Pod == pod.Name && move.Task.Namespace == pod.Namespace &&
				(move.Task.UID == "" || owner == nil || move.Task.UID == owner.UID) {
				return move.To.Node
			}
		}
	}
	return ""
}

// underWay returns the moves of a plan whose Pods have been evicted and do not run again yet.
func underWay(plan *v1.MovePlan) []v1.Move {
	if plan.Status.Phase != v1.PlanExecuting || len(plan.Status.Moves) != len(plan.Spec.Moves) {
		return nil
	}
	var moves []v1.Move
	for i := range plan.Spec.Moves {
		if plan.Status.Moves[i].State == v1.MoveEvicted {
			moves = append(moves, plan.Spec.Moves[i])
		}
	}
	return moves
}

// Steer makes a Pod prefer a node. Only the stock scheduler needs this: gpu-scheduler knows
// the reservation.
func Steer(pod *corev1.Pod, node string) {
	if node == "" {
		return
	}
	affinity := &corev1.Affinity{}
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.DeepCopy()
	}
	affinity.NodeAffinity = cmp.Or(affinity.NodeAffinity, &corev1.NodeAffinity{})
	affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = slices.Concat(
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		[]corev1.PreferredSchedulingTerm{{Weight: destinationWeight, Preference: corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}})
	pod.Spec.Affinity = affinity
}

// Moves reports whether a plan is moving Pods of a task.
func Moves(plan *v1.MovePlan, task types.UID) bool {
	return slices.ContainsFunc(underWay(plan), func(move v1.Move) bool { return move.Task.UID == task })
}
