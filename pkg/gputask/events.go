// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Event is a Kubernetes Event about a task.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type            string
	Reason, Message string
}

// Events returns the Events for a change from one status of a task to the next. Each Event
// is tied to one change, so it is recorded once however often the task is reconciled. The
// Events about moves are those of package moveplan.
func Events(before, after *v1.GPUTaskStatus) []Event {
	var events []Event
	add := func(kind, reason, message string) {
		events = append(events, Event{Type: kind, Reason: reason, Message: message})
	}
	if after.Restarts > before.Restarts {
		add(corev1.EventTypeWarning, reasonRestarting, restartEvent(after))
	}
	if after.FailedIndexes != before.FailedIndexes {
		add(corev1.EventTypeWarning, v1.ReasonFailedIndexes, "indexes that have failed for good: "+shorten(after.FailedIndexes))
	}
	for _, kind := range []string{v1.ConditionDependenciesMet, v1.ConditionPodsCreated, v1.ConditionNodesReachable} {
		if refused := newlyFalse(before, after, kind); refused != nil {
			add(eventType(refused.Reason), refused.Reason, refused.Message)
		}
	}
	events = append(events, podEvents(before, after)...)
	if after.Phase == before.Phase {
		return events
	}
	switch after.Phase {
	case v1.PhaseRunning:
		// When a task runs for the first time, its status is enough: an Event would only be
		// one more write for each task.
		if !RunsForTheFirstTime(before, after) {
			add(corev1.EventTypeNormal, string(after.Phase), after.Message)
		}
	case v1.PhaseSucceeded, v1.PhaseSuspended:
		add(corev1.EventTypeNormal, string(after.Phase), after.Message)
	case v1.PhaseFailed:
		failed := meta.FindStatusCondition(after.Conditions, v1.ConditionFailed)
		add(eventType(failed.Reason), failed.Reason, failed.Message)
	case v1.PhaseWaiting, v1.PhasePending:
	}
	return events
}

// podEvents returns the Events about Pods that a task has lost, that nodes have refused, or that are
// replaced since the task was changed.
func podEvents(before, after *v1.GPUTaskStatus) []Event {
	var events []Event
	if refused := after.Refusals; refused != nil && (before.Refusals == nil || refused.Count > before.Refusals.Count) {
		events = append(events, Event{corev1.EventTypeWarning, ReasonRefusedByNode, fmt.Sprintf("node %s has refused a Pod: %s", refused.Node, refused.Message)})
	}
	if isInterruption(before, after) {
		events = append(events, Event{corev1.EventTypeWarning, string(after.LastInterruption.Reason), "Pods were " + InterruptionText(after.LastInterruption, "")})
	}
	changed := meta.FindStatusCondition(after.Conditions, v1.ConditionSuspended)
	switch lost := after.Losses; {
	case changed != nil && changed.Reason == reasonChanged && !meta.IsStatusConditionTrue(before.Conditions, v1.ConditionSuspended):
		events = append(events, Event{corev1.EventTypeNormal, reasonChanged, changed.Message})
	case lostPods(before, after) && (!isInterrupted(after) || saysRestarting(after)):
		events = append(events, Event{corev1.EventTypeWarning, ReasonPodLost, lostEvent(after)})
	case lost != nil && lost.Reason != v1.LossIgnored && (before.Losses == nil || lost.Count > before.Losses.Count):
		events = append(events, Event{
			corev1.EventTypeWarning, string(lost.Reason),
			fmt.Sprintf("%s; attempt %d follows at %s", lost.Message, lost.Count+1, timeText(lost.NextTime.Time)),
		})
	}
	return events
}

// restartEvent returns why the task restarts: from the condition Running or, while enough
// other Pods run, from the message.
func restartEvent(after *v1.GPUTaskStatus) string {
	running := meta.FindStatusCondition(after.Conditions, v1.ConditionRunning)
	if running == nil || running.Reason != reasonRestarting {
		return after.Message
	}
	return fmt.Sprintf("%s: restart %d", running.Message, after.Restarts)
}

// lostEvent returns what is done about a Pod that was lost: from the condition Running if the
// whole task restarts.
func lostEvent(after *v1.GPUTaskStatus) string {
	if saysRestarting(after) {
		return meta.FindStatusCondition(after.Conditions, v1.ConditionRunning).Message + "; all Pods start again"
	}
	return "a Pod was lost or deleted and is replaced: " + after.Message
}

// saysRestarting reports whether a status says that the whole task restarts.
func saysRestarting(status *v1.GPUTaskStatus) bool {
	running := meta.FindStatusCondition(status.Conditions, v1.ConditionRunning)
	return running != nil && running.Reason == reasonRestarting
}

// newlyFalse returns the condition if it has become False, or is now False for another
// reason; nil otherwise.
func newlyFalse(before, after *v1.GPUTaskStatus, kind string) *metav1.Condition {
	now := meta.FindStatusCondition(after.Conditions, kind)
	if now == nil || now.Status != metav1.ConditionFalse {
		return nil
	}
	was := meta.FindStatusCondition(before.Conditions, kind)
	if was != nil && was.Status == now.Status && was.Reason == now.Reason {
		return nil
	}
	return now
}

// ReasonPodLost is the Event of a task that was running and lost a Pod without a failure.
const ReasonPodLost = "PodLost"

// ReasonRefusedByNode is the Event of a task of which a node has refused a Pod.
const ReasonRefusedByNode = "RefusedByNode"

// ReasonQuotaExceeded is the refusal of a Pod that a ResourceQuota does not allow.
const ReasonQuotaExceeded = "QuotaExceeded"

// ReasonOldPodStops is the refusal of a Pod whose name is still taken by a terminating
// Pod.
const ReasonOldPodStops = "WaitingForOldPod"

// eventType returns Normal for waiting for another task or for an old Pod and for an end that somebody
// wanted, and Warning for everything else that delays or ends a task.
func eventType(reason string) string {
	if reason == reasonWaitingForTask || reason == ReasonOldPodStops || reason == v1.ReasonDeleted {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// lostPods reports whether a running task has lost Pods without a failure.
func lostPods(before, after *v1.GPUTaskStatus) bool {
	return before.Phase == v1.PhaseRunning && after.Phase == v1.PhasePending &&
		after.Restarts == before.Restarts &&
		after.CompletedIndexes == before.CompletedIndexes && after.FailedIndexes == before.FailedIndexes && // others follow
		!meta.IsStatusConditionTrue(before.Conditions, v1.ConditionSuspended) && !meta.IsStatusConditionTrue(after.Conditions, v1.ConditionSuspended) &&
		!meta.IsStatusConditionTrue(after.Conditions, v1.ConditionFailureTarget)
}

// RunsForTheFirstTime reports whether a change of status is the first time
// that a task runs.
func RunsForTheFirstTime(before, after *v1.GPUTaskStatus) bool {
	return meta.IsStatusConditionTrue(after.Conditions, v1.ConditionRunning) &&
		meta.FindStatusCondition(before.Conditions, v1.ConditionRunning) == nil
}
