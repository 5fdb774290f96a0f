// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
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
	reasonAllSucceeded  = "AllPodsSucceeded"
	reasonSuccessPolicy = "SuccessPolicy"
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
		case podSucceeded, podTerminating, podStopped:
		}
	}
	if d.Refusal == nil {
		// They will exist in a moment: counting them now saves a write.
		d.status.Pending += int32(len(d.plan.Create)) //nolint:gosec // at most 10000
	}
	d.status.Total = int32(len(d.members)) //nolint:gosec // at most 10000
	d.status.Nodes = nodesOf(d.Pods)
	if d.status.Phase == v1.PhasePending && !d.isFailing() && !d.isSuspended() && !d.isDeleted() && !d.hasSucceeded() {
		d.reportProgress()
	}
}

// reportSelector sets how the Pods are selected, if the status is written anyway: tasks of earlier versions have none,
// and writing it to all of them at once would be a burden for the API server.
func (d *decision) reportSelector() {
	if !equality.Semantic.DeepEqual(&d.Task.Status, d.status) {
		d.status.Selector = labels.FormatLabels(selectorOf(d.Task))
	}
}

// reportRoles updates how far each role of the task is.
func (d *decision) reportRoles() {
	if len(d.Task.Spec.Roles) == 0 {
		return
	}
	d.status.Roles = make([]v1.RoleStatus, len(d.roles))
	for i := range d.roles {
		d.status.Roles[i] = d.roleStatus(&d.roles[i])
	}
}

func (d *decision) roleStatus(role *Role) v1.RoleStatus {
	status := v1.RoleStatus{Name: role.Name, Replicas: int32(role.Count())} //nolint:gosec // at most 4096
	for i := range role.Count() {
		switch m := d.members[role.First+i]; {
		case m.succeeded:
			status.Succeeded++
		case m.runs():
			status.Running++
		}
	}
	return status
}

func (d *decision) isSuspended() bool {
	return meta.IsStatusConditionTrue(d.status.Conditions, v1.ConditionSuspended)
}

func (d *decision) reportProgress() {
	d.reportRefusal()
	waiting := d.reportScheduling()
	switch running := d.running(); {
	case d.allRunOrHaveEnded():
		endInterruption(d)
		d.status.Phase = v1.PhaseRunning
		d.status.Message = d.runningText()
		d.setCondition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning, "")
	case d.areEnough(running):
		endInterruption(d)
		d.status.Phase = v1.PhaseRunning
		d.status.Message = d.runningText() + "; " + d.waitingFor(waiting).text
		d.setCondition(v1.ConditionRunning, metav1.ConditionTrue, reasonEnoughRunning, "")
	case d.awaitsSuccessors(waiting):
		d.status.Phase = v1.PhaseRunning
		d.status.Message = d.runningText()
	default:
		delayed := d.waitingFor(waiting)
		d.status.Message, d.reason = delayed.text, delayed.reason
		if d.lossText() == "" { // which says the same
			d.status.Message = interruptedText(d.status) + d.status.Message
		}
		d.reportEstimate()
		if !d.isRestarting() && !d.restartsAfterLoss() {
			d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, reasonTooFewRunning)
		}
	}
}

// runningText returns where the task runs, whether nothing limits its shares of GPUs, which of its nodes are not ready,
// and how far an array is.
func (d *decision) runningText() string {
	where := "running on " + nodeText(d.status.Nodes) + d.unlimitedText() + d.troubleText()
	if d.quiet != "" {
		where += "; " + d.quiet
	}
	if !IsArray(d.Task) {
		return where
	}
	done := fmt.Sprintf("%d of %d Pods have succeeded", d.countSucceeded(), len(d.members))
	if d.running() == 0 {
		return done + "; the next are starting"
	}
	return done + "; " + where
}

// awaitsSuccessors reports whether the Pods of an array that runs have ended, and the next ones are
// starting: nothing suggests that they will have to wait.
func (d *decision) awaitsSuccessors(unscheduled unscheduledPods) bool {
	return IsArray(d.Task) && d.Task.Status.Phase == v1.PhaseRunning && d.countDone() > 0 &&
		d.cause().text == "" && unscheduled.text == "" && d.containerTexts() == "" && d.slowText() == ""
}

func (d *decision) reportRefusal() {
	if d.Refusal != nil {
		d.setCondition(v1.ConditionPodsCreated, metav1.ConditionFalse, d.Refusal.Reason, d.Refusal.Message)
		return
	}
	if len(d.plan.Create) == 0 {
		d.setConditionIfPresent(v1.ConditionPodsCreated, metav1.ConditionTrue, reasonCreated)
	}
}

// unscheduledPods are the Pods that wait for a node.
type unscheduledPods struct {
	count int
	// text is the scheduler's explanation, "" if there is none yet, and reason that in one word.
	text   string
	reason v1.TaskReason
}

// reportScheduling sets the condition Scheduled and returns the Pods without a node.
// Kube-scheduler explains each of them, one after the other; gpu-scheduler, which places a
// gang as a whole, explains one of them for all. Either way all of them wait, and one
// explanation is reported.
func (d *decision) reportScheduling() unscheduledPods {
	var unscheduled unscheduledPods
	var pods []*corev1.Pod
	waiting := false
	for _, m := range d.members {
		if m.pod == nil || m.state != podPending || m.pod.Spec.NodeName != "" {
			waiting = waiting || m.lacksPod()
			continue
		}
		waiting = true
		unscheduled.count++
		pods = append(pods, m.pod)
	}
	if reason := waitingreason.Of(pods...); reason != nil {
		unscheduled.text, unscheduled.reason = waitingreason.Sentence(reason), verdict.OfReason(reason)
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
	return d.countMembers(func(m *member) bool { return m.runs() && !m.done() })
}

// areEnough reports whether the task counts as running with this many running members
// besides those that have succeeded.
func (d *decision) areEnough(running int) bool {
	return running > 0 && d.countSucceeded()+running >= MinAvailable(d.Task)
}

// reportHealth sets the conditions from which tools learn the health of objects of any kind. A task
// that runs is healthy, like a Job.
func (d *decision) reportHealth() {
	switch d.status.Phase {
	case v1.PhaseWaiting:
		d.setCondition(v1.ConditionReconciling, metav1.ConditionTrue, string(v1.TaskBlocked), "")
		return
	case v1.PhasePending:
		d.setCondition(v1.ConditionReconciling, metav1.ConditionTrue, string(cmp.Or(d.reason, v1.TaskStarting)), "")
		return
	case v1.PhaseFailed:
		failed := meta.FindStatusCondition(d.status.Conditions, v1.ConditionFailed)
		d.setCondition(v1.ConditionStalled, metav1.ConditionTrue, failed.Reason, failed.Message)
	case v1.PhaseRunning, v1.PhaseSuspended, v1.PhaseSucceeded:
	}
	d.setConditionIfPresent(v1.ConditionReconciling, metav1.ConditionFalse, string(d.status.Phase))
}
