// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strconv"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// MinAvailable returns how many Pods of a task must start together, from 1 to
// all of them. The Pods of an array start one by one.
func MinAvailable(task *v1.GPUTask) int {
	if IsArray(task) {
		return 1
	}
	replicas := Replicas(task)
	if task.Spec.MinAvailable == nil || *task.Spec.MinAvailable < 1 {
		return replicas
	}
	return min(int(*task.Spec.MinAvailable), replicas)
}

// labelGang sets the labels by which gpu-scheduler recognizes a gang. A task that is none
// leaves them to its template: that way, several tasks may form one gang.
func labelGang(labels map[string]string, task *v1.GPUTask) {
	if !IsGang(task) {
		return
	}
	labels[v1.LabelPodGroup] = task.Name
	labels[v1.LabelMinAvailable] = strconv.Itoa(MinAvailable(task))
}

// lowerMinAvailable lowers the label LabelMinAvailable of unbound Pods, since the scheduler no
// longer sees members that have succeeded: the remaining Pods can't wait for those. The lowest
// value among a gang's Pods counts.
func (d *decision) lowerMinAvailable() {
	if !IsGang(d.Task) || d.countSucceeded() == 0 {
		return
	}
	d.plan.MinAvailable = strconv.Itoa(d.startTogether())
	for _, m := range d.members {
		if m.pod != nil && m.state == podPending && m.pod.Spec.NodeName == "" && m.pod.Labels[v1.LabelMinAvailable] != d.plan.MinAvailable {
			d.plan.Discount = append(d.plan.Discount, m.pod)
		}
	}
}

// startTogether returns how many of the remaining Pods have to start together, now that some have
// succeeded. Pods join those that have a node as long as minAvailable of the gang run or have
// succeeded; if none has a node, they are as many as there are, up to minAvailable: members that
// never started do not start alone because the others are done.
func (d *decision) startTogether() int {
	least, done := MinAvailable(d.Task), d.countSucceeded()
	for _, m := range d.members {
		if m.pod != nil && m.pod.Spec.NodeName != "" && m.state.isActive() {
			return max(1, least-done)
		}
	}
	return max(1, min(least, len(d.members)-done))
}
