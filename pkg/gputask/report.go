// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Reasons of conditions that report how far a task's Pods are.
const (
	reasonRestarting    = "Restarting"
	reasonAllRunning    = "AllPodsRunning"
	reasonEnoughRunning = "MinAvailablePodsRunning"
	reasonTooFewRunning = "TooFewPodsRunning"
	reasonScheduled     = "AllPodsScheduled"
	reasonUnschedulable = "Unschedulable"
	reasonCreated       = "AllPodsCreated"
)

// reportPods updates the counts of Pods and, for a task that should run, its progress.
func (d *decision) reportPods() {
	d.status.Pending, d.status.Running, d.status.Failed = 0, 0, 0
	for _, pod := range d.Pods {
		switch outcomeOf(pod) {
		case podPending:
			d.status.Pending++
		case podRunning:
			d.status.Running++
		case podFailed, podLost:
			d.status.Failed++
		case podSucceeded, podTerminating:
		}
	}
	if d.Obstacle == nil {
		// They will exist in a moment: counting them now saves a write.
		d.status.Pending += int32(len(d.plan.Create)) //nolint:gosec // at most 4096 replicas
	}
	d.status.Nodes = nodesOf(d.Pods)
	if d.status.Phase == v1.PhasePending && !d.isFailing() && !d.isSuspended() {
		d.reportProgress()
	}
}

func (d *decision) isSuspended() bool {
	return conditionIsTrue(d.status.Conditions, v1.ConditionSuspended)
}

func (d *decision) reportProgress() {
	d.reportObstacle()
	waiting := d.reportScheduling()
	switch running := d.running(); {
	case len(d.completed)+running == len(d.members):
		d.status.Phase = v1.PhaseRunning
		d.status.Message = "running on " + nodeText(d.status.Nodes)
		d.setCondition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning, "")
	case d.areEnough(running):
		d.status.Phase = v1.PhaseRunning
		d.status.Message = "running on " + nodeText(d.status.Nodes) + "; " + d.waitingFor(waiting)
		d.setCondition(v1.ConditionRunning, metav1.ConditionTrue, reasonEnoughRunning, "")
	default:
		d.status.Message = d.waitingFor(waiting)
		if !d.isRestarting() && !d.restartsAfterLoss() {
			d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, reasonTooFewRunning)
		}
	}
}

func (d *decision) reportObstacle() {
	if d.Obstacle != nil {
		d.setCondition(v1.ConditionPodsCreated, metav1.ConditionFalse, d.Obstacle.Reason, d.Obstacle.Message)
		return
	}
	if len(d.plan.Create) == 0 {
		d.setConditionIfPresent(v1.ConditionPodsCreated, metav1.ConditionTrue, reasonCreated)
	}
}

// unscheduledPods are the Pods that wait for a node.
type unscheduledPods struct {
	count int
	// text is the scheduler's explanation, "" if there is none yet.
	text string
}

// reportScheduling sets the condition Scheduled and returns the Pods without a node.
// Kube-scheduler explains each of them, one after the other; gpu-scheduler, which places a
// gang as a whole, explains one of them for all. Either way all of them wait, and the first
// explanation is reported.
func (d *decision) reportScheduling() unscheduledPods {
	var unscheduled unscheduledPods
	waiting := false
	for i := range d.members {
		m := &d.members[i]
		if m.pod == nil || m.state != podPending || m.pod.Spec.NodeName != "" {
			waiting = waiting || m.pod == nil && !d.completed.has(m.index)
			continue
		}
		waiting = true
		unscheduled.count++
		if unscheduled.text == "" {
			unscheduled.text = schedulerText(m.pod)
		}
	}
	switch {
	case unscheduled.text != "":
		d.setCondition(v1.ConditionScheduled, metav1.ConditionFalse, reasonUnschedulable, unscheduled.text)
	case !waiting:
		d.setCondition(v1.ConditionScheduled, metav1.ConditionTrue, reasonScheduled, "")
	}
	return unscheduled
}

// running returns how many members run their current attempt.
func (d *decision) running() int {
	running := 0
	for i := range d.members {
		if m := &d.members[i]; m.runs() && !d.completed.has(m.index) {
			running++
		}
	}
	return running
}

// areEnough reports whether the task counts as running with this many running members
// besides those that have succeeded.
func (d *decision) areEnough(running int) bool {
	return running > 0 && len(d.completed)+running >= MinAvailable(d.Task)
}
