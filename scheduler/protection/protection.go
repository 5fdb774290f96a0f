// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package protection keeps kube-scheduler's own preemption from breaking gangs.
package protection

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"falldio.github.io/gpu-controller/scheduler/planner"
)

// Protect keeps kube-scheduler's own preemption, which acts for Pods without GPUs and
// considers one Pod at a time, from taking members that a gang needs. It must be called
// before the scheduler runs.
func Protect(profiles profile.Map, shared *planner.Shared) {
	for _, one := range profiles {
		for _, plugin := range one.EnqueueExtensions() {
			if preempting, found := plugin.(*defaultpreemption.DefaultPreemption); found {
				preempting.IsEligiblePod = func(node fwk.NodeInfo, victim preemption.Victim, _ *corev1.Pod) bool {
					return mayLeave(shared.Get(), node, victim)
				}
			}
		}
	}
}

func mayLeave(plans *planner.Planner, node fwk.NodeInfo, victim preemption.Victim) bool {
	for _, one := range victim.Pods() {
		if plans != nil && !plans.MayLeave(node, one.GetPod()) {
			return false
		}
	}
	return true
}
