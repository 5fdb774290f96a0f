// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// PlannedPod is a Pod that a plan creates. It is built only when it is sent to the API server: all Pods of a large task
// together may need more memory than the process has.
type PlannedPod struct {
	decision *decision
	member   *member
}

// Build returns the Pod.
func (p *PlannedPod) Build() (*corev1.Pod, error) { return p.decision.newPod(p.member) }

// ActivePods returns how many Pods of each role of a task hold, or may come to hold, a node once the plan is carried out, given
// the Pods that the task had before.
func (p *Plan) ActivePods(task *v1.GPUTask, pods []*corev1.Pod) map[string]int {
	active := ActivePods(task, pods)
	for i := range p.Create {
		active[p.Create[i].member.role.Name]++
	}
	return active
}
