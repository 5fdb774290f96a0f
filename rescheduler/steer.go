// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

// Steer makes a Pod that a plan moves prefer its destination.
func (r *Rescheduler) Steer(pod *corev1.Pod) error {
	if !r.executing.Load() {
		return nil
	}
	plans, err := r.ownPlans()
	if err != nil {
		return err
	}
	moveplan.Steer(pod, moveplan.Destination(plans, pod, metav1.GetControllerOf(pod)))
	return nil
}

// Moves reports whether a plan is moving Pods of the task: that they are lost is then
// expected.
func (r *Rescheduler) Moves(task types.UID) bool {
	if !r.executing.Load() {
		return false
	}
	plans, err := r.ownPlans()
	return err == nil && slices.ContainsFunc(plans, func(plan *v1.MovePlan) bool { return moveplan.Moves(plan, task) })
}

// Changed is called for every change of a task, a Pod, a node or a budget. Most of them
// don't concern any plan.
func (r *Rescheduler) Changed() {
	if r.executing.Load() {
		r.trigger()
	}
}
