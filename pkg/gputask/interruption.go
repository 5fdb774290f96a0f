// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// interrupt records in the status that a Pod was taken away, if it says so and that is not known: Pods that are taken
// away together are one interruption.
func interrupt(d *decision, pod *corev1.Pod) {
	found := interruptionOf(pod)
	if found == nil {
		return
	}
	if saved := (&checkpoint.Pod{Pod: pod, Task: d.Task.Annotations}).Last(); !saved.IsZero() {
		found.SavedTime = new(metav1.NewTime(saved).Rfc3339Copy())
	}
	last := d.status.LastInterruption
	if saved := found.SavedTime; saved != nil && isInterrupted(d.status) && (last.SavedTime == nil || last.SavedTime.Before(saved)) {
		last.SavedTime = saved // a Pod that is stopped may still save its work
	}
	if last != nil && (!found.Time.After(last.Time.Time) || last.EndTime == nil && isSame(last, found)) {
		return
	}
	if found.Reason == v1.InterruptionEvicted && d.EvictedFor != nil {
		found.Reason = d.EvictedFor(pod)
	}
	d.status.LastInterruption = found
}

// isSame reports whether Pods were taken away for the same cause. What evictions were for is known of the first only.
func isSame(last, found *v1.Interruption) bool {
	reason := last.Reason
	if reason == v1.InterruptionMoved || reason == v1.InterruptionDrained {
		reason = v1.InterruptionEvicted
	}
	return reason == found.Reason && last.Message == found.Message
}

// interruptionOf returns why and when a Pod was taken away; nil if it does not say so.
func interruptionOf(pod *corev1.Pod) *v1.Interruption {
	reason, at := podfacts.Interruption(pod)
	if reason == "" {
		return nil
	}
	condition := podfacts.Condition(pod, corev1.DisruptionTarget)
	found := &v1.Interruption{Time: at, Reason: reason, Node: pod.Spec.NodeName, Message: cmp.Or(pod.Status.Message, condition.Message)}
	switch reason {
	case v1.InterruptionPreempted:
		found.Message = condition.Message
	case v1.InterruptionEvicted:
		found.Message = "" // it always says the same
	case v1.InterruptionDisrupted:
		found.Message = cmp.Or(found.Message, condition.Reason)
	default:
	}
	found.Message = shorten(found.Message)
	return found
}

// endInterruption records in the status that the task runs again: not only still, with a Pod that is marked and
// about to be deleted.
func endInterruption(d *decision) {
	isMarked := func(m *member) bool { return m.pod != nil && !m.done() && interruptionOf(m.pod) != nil }
	if isInterrupted(d.status) && !slices.ContainsFunc(d.members, isMarked) {
		d.status.LastInterruption.EndTime = new(metav1.NewTime(d.Now).Rfc3339Copy())
	}
}

// interruptedText begins a sentence that says why a task does not run any more; it is empty if the task was not
// interrupted, or has run again since.
func interruptedText(status *v1.GPUTaskStatus) string {
	if !isInterrupted(status) {
		return ""
	}
	last := status.LastInterruption
	return InterruptionText(last, " at "+timeText(last.Time.Time)) + "; "
}

// InterruptionText says in words what has happened: "preempted at 2026-11-27T15:56:02Z: task big (priority 100)
// needs its place". at is the time, with a space before it; it may be empty.
func InterruptionText(of *v1.Interruption, at string) string {
	node := "its node"
	if of.Node != "" {
		node = "node " + of.Node
	}
	text := "stopped" + at
	switch of.Reason {
	case v1.InterruptionPreempted:
		text = "preempted" + at
	case v1.InterruptionMoved:
		text = "moved from " + node + at
	case v1.InterruptionDrained:
		text = "evicted from " + node + at + " because the node is being drained"
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
	if of.SavedTime != nil {
		text += "; its work was saved at " + timeText(of.SavedTime.Time)
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
