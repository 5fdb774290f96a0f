// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Reasons of conditions that say how far a task's Pods are.
const (
	reasonRestarting    = "Restarting"
	reasonAllRunning    = "AllPodsRunning"
	reasonNotAllRunning = "NotAllPodsRunning"
	reasonScheduled     = "AllPodsScheduled"
	reasonUnschedulable = "Unschedulable"
	reasonCreated       = "AllPodsCreated"
)

// reportPods writes the counts of Pods, and, for a task that is meant to run,
// how far it is.
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
		case podSucceeded, podEnding:
		}
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
	unscheduled := d.reportScheduling()
	if d.allRunOrSucceeded() {
		d.status.Phase = v1.PhaseRunning
		d.status.Message = "running on " + nodeText(d.status.Nodes)
		d.setCondition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning, "")
		return
	}
	d.status.Message = d.waitingFor(unscheduled)
	if !d.isRestarting() {
		d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, reasonNotAllRunning)
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

// reportScheduling returns the Pods that the scheduler found no node for.
func (d *decision) reportScheduling() []*corev1.Pod {
	var unscheduled []*corev1.Pod
	waiting := false
	for i := range d.members {
		m := &d.members[i]
		if m.pod == nil || m.state != podPending || m.pod.Spec.NodeName != "" {
			waiting = waiting || m.pod == nil && !d.completed.has(m.index)
			continue
		}
		waiting = true
		condition := podCondition(m.pod, corev1.PodScheduled)
		if condition != nil && condition.Status == corev1.ConditionFalse && condition.Message != "" {
			unscheduled = append(unscheduled, m.pod)
		}
	}
	switch {
	case len(unscheduled) > 0:
		d.setCondition(v1.ConditionScheduled, metav1.ConditionFalse, reasonUnschedulable, schedulerText(unscheduled[0]))
	case !waiting:
		d.setCondition(v1.ConditionScheduled, metav1.ConditionTrue, reasonScheduled, "")
	}
	return unscheduled
}

func (d *decision) allRunOrSucceeded() bool {
	for i := range d.members {
		m := &d.members[i]
		if d.completed.has(m.index) {
			continue
		}
		if m.pod == nil || m.stale || m.state != podRunning {
			return false
		}
	}
	return true
}

// waitingFor says in one sentence why the task does not run, the most telling
// cause first.
func (d *decision) waitingFor(unscheduled []*corev1.Pod) string {
	if d.Obstacle != nil {
		return d.Obstacle.Message
	}
	if d.isRestarting() {
		return d.restartText()
	}
	if len(unscheduled) > 0 {
		return d.of(len(unscheduled)) + "for a node: " + schedulerText(unscheduled[0])
	}
	for i := range d.members {
		m := &d.members[i]
		if m.pod == nil || m.state != podPending {
			continue
		}
		if text := containerText(m.pod); text != "" {
			return fmt.Sprintf("Pod %s: %s", m.pod.Name, text)
		}
	}
	notRunning := len(d.members) - len(d.completed) - int(d.status.Running)
	return d.of(notRunning) + "to start"
}

// isRestarting reports whether the task waits for a new start after a failure.
func (d *decision) isRestarting() bool {
	for i := range d.members {
		if d.awaitsRestart(&d.members[i]) {
			return true
		}
	}
	return false
}

// awaitsRestart reports whether a member's last attempt failed and the next one
// has not begun. A member without a Pod whose time has come was lost since.
func (d *decision) awaitsRestart(m *member) bool {
	if m.attempt == 0 || d.completed.has(m.index) {
		return false
	}
	if m.pod == nil {
		return d.backoffLeft(m) > 0
	}
	return m.stale
}

// restartText says why there is a new start and, if it is not yet due, when.
func (d *decision) restartText() string {
	cause := "a Pod failed"
	if running := findCondition(d.status.Conditions, v1.ConditionRunning); running != nil && running.Reason == reasonRestarting {
		cause = running.Message
	}
	text := fmt.Sprintf("%s; restart %d of %d", cause, d.status.Restarts, d.backoffLimit())
	var next time.Duration
	for i := range d.members {
		if m := &d.members[i]; d.awaitsRestart(m) {
			if wait := d.backoffLeft(m); wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
	}
	if next == 0 {
		return text
	}
	return text + " at " + d.Now.Add(next).UTC().Format(time.TimeOnly) + " UTC"
}

// of begins a sentence about some of the task's Pods: "waiting " or, in a
// gang, "2 of 3 Pods wait ".
func (d *decision) of(some int) string {
	if len(d.members) == 1 {
		return "waiting "
	}
	if some == 1 {
		return fmt.Sprintf("1 of %d Pods waits ", len(d.members))
	}
	return fmt.Sprintf("%d of %d Pods wait ", some, len(d.members))
}

// schedulerText shortens what kube-scheduler says to its first sentence: why
// the Pod fits nowhere. What follows is about preemption and claims.
func schedulerText(pod *corev1.Pod) string {
	message := podCondition(pod, corev1.PodScheduled).Message
	for _, rest := range []string{" preemption: ", " no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, rest)
	}
	return strings.TrimSuffix(strings.TrimSpace(message), ".")
}

// containerText says what a Pod's containers wait for, if it is worth saying.
func containerText(pod *corev1.Pod) string {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil || waiting.Reason == "" || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing" {
			continue
		}
		if waiting.Message == "" {
			return waiting.Reason
		}
		return waiting.Reason + ": " + waiting.Message
	}
	return ""
}

func nodeText(nodes []string) string {
	switch {
	case len(nodes) == 1:
		return nodes[0]
	case len(nodes) <= 3:
		return strings.Join(nodes, ", ")
	default:
		return fmt.Sprintf("%s and %d more nodes", nodes[0], len(nodes)-1)
	}
}
