// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// recordInterruption records why Pods of the task were taken away, if they say so: the last one of them.
func (d *decision) recordInterruption() {
	if d.hasSucceeded() || d.isFailing() || SuspensionRequested(d.Task) || d.isHeld() {
		return
	}
	for _, m := range d.members {
		if m.pod != nil && !m.stale && !m.done() && !podfacts.WasRefused(m.pod) {
			d.interruptBy(m.pod)
		}
	}
	for _, pod := range d.Gone {
		if index, found := memberIndex(d.Task, d.roles, pod.Name); found && !d.members[index].done() {
			d.interruptBy(pod)
		}
	}
}

// interruptBy records what has happened to a Pod, unless that is known: Pods that are taken away together are one
// interruption.
func (d *decision) interruptBy(pod *corev1.Pod) {
	found := interruptionOf(pod)
	if found == nil {
		return
	}
	last := d.status.LastInterruption
	if last != nil && (!found.Time.After(last.Time.Time) || last.EndTime == nil && last.Reason == found.Reason && last.Message == found.Message) {
		return
	}
	d.status.LastInterruption = found
}

// interruptionOf returns why and when a Pod was taken away; nil if it does not say so.
func interruptionOf(pod *corev1.Pod) *v1.Interruption {
	if !podfacts.IsDisrupted(pod) {
		return nil
	}
	condition := podfacts.Condition(pod, corev1.DisruptionTarget)
	found := &v1.Interruption{Time: condition.LastTransitionTime, Node: pod.Spec.NodeName, Message: shorten(cmp.Or(pod.Status.Message, condition.Message))}
	switch condition.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		found.Reason, found.Message = v1.InterruptionPreempted, shorten(condition.Message)
	case "EvictionByEvictionAPI":
		found.Reason, found.Message = v1.InterruptionEvicted, "" // it always says the same
	case "DeletionByTaintManager", "DeletionByPodGC":
		found.Reason = v1.InterruptionNodeLost
	case corev1.PodReasonTerminationByKubelet:
		found.Reason = v1.InterruptionStoppedByNode
	default:
		found.Reason, found.Message = v1.InterruptionDisrupted, cmp.Or(found.Message, condition.Reason)
	}
	return found
}

// endInterruption records that the task runs again.
func (d *decision) endInterruption() {
	if last := d.status.LastInterruption; last != nil && last.EndTime == nil {
		ended := last.DeepCopy()
		ended.EndTime = d.now()
		d.status.LastInterruption = ended
	}
}

// interrupted returns a sentence's beginning that says why the task does not run any more; "" if it was not interrupted,
// or has run again since.
func (d *decision) interrupted() string {
	last := d.status.LastInterruption
	if last == nil || last.EndTime != nil || d.lossText() != "" { // that says it
		return ""
	}
	return InterruptionText(last, " at "+last.Time.UTC().Format(time.TimeOnly)+" UTC") + "; "
}

// InterruptionText says in words what has happened: "preempted at 15:56:02 UTC: task big (priority 100) needs its GPUs".
// The time begins with a space if it is to be said.
func InterruptionText(of *v1.Interruption, at string) string {
	node := cmp.Or(of.Node, "its node")
	if of.Node != "" {
		node = "node " + of.Node
	}
	text := "stopped" + at
	switch of.Reason {
	case v1.InterruptionPreempted:
		text = "preempted" + at
	case v1.InterruptionEvicted:
		text = "evicted from " + node + at
	case v1.InterruptionNodeLost:
		text = "lost with " + node + at
	case v1.InterruptionStoppedByNode:
		text = "stopped by " + node + at
	case v1.InterruptionDisrupted:
	}
	if of.Message != "" {
		text += ": " + of.Message
	}
	return text
}

// isInterruption reports whether Pods of a task were taken away since the status before.
func isInterruption(before, after *v1.GPUTaskStatus) bool {
	now, was := after.LastInterruption, before.LastInterruption
	return now != nil && (was == nil || !was.Time.Equal(&now.Time))
}

// isInterrupted reports whether a status says why the task does not run any more.
func isInterrupted(status *v1.GPUTaskStatus) bool {
	return status.LastInterruption != nil && status.LastInterruption.EndTime == nil
}
