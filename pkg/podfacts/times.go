// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BoundAt returns when a Pod got its node, by the API server's clock: as long as the scheduler's condition does not say it, when its
// node saw it, or when it was created, for a Pod that was created with a node.
func BoundAt(pod *corev1.Pod) (at time.Time, known bool) {
	if bound := Condition(pod, corev1.PodScheduled); bound != nil && bound.Status == corev1.ConditionTrue && !bound.LastTransitionTime.IsZero() {
		return bound.LastTransitionTime.Time, true
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time, true
	}
	return pod.CreationTimestamp.Time, !pod.CreationTimestamp.IsZero()
}

// EndedAt returns when the last container of a Pod ended, by its node's clock: of those for initialization, one that has failed. It is
// not known of Pods that were stopped before a container ran, and of those whose containers were lost.
func EndedAt(pod *corev1.Pod) (at time.Time, known bool) {
	for _, end := range Ends(pod) {
		if (end.ExitCode != 0 || RoleOf(pod, end.Container) != Init) && end.FinishedAt.After(at) {
			at = end.FinishedAt.Time
		}
	}
	return at, !at.IsZero()
}

// BeganAt returns when the first container of a Pod began, by its node's clock; those for initialization do not count. One that could
// not be started has no begin, though a container runtime may write one of 1970.
func BeganAt(pod *corev1.Pod) (at time.Time, known bool) {
	for i := range pod.Status.ContainerStatuses {
		var began time.Time
		switch state := &pod.Status.ContainerStatuses[i].State; {
		case state.Running != nil:
			began = state.Running.StartedAt.Time
		case state.Terminated != nil:
			began = state.Terminated.StartedAt.Time
		}
		if began.Unix() > 0 && (at.IsZero() || began.Before(at)) {
			at = began
		}
	}
	return at, !at.IsZero()
}

// Started returns when a Pod began its current work, by its node's clock: a container that was restarted has lost everything before.
func Started(pod *corev1.Pod) time.Time {
	work := WorkContainer(pod)
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == work && WasRestarted(status) {
			return status.State.Running.StartedAt.Time
		}
	}
	return FirstStarted(pod)
}

// FirstStarted returns when a Pod began its first work, by its node's clock. Its owner can't put that off by restarting it.
func FirstStarted(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// EndedBeforeDeletion reports whether a Pod's containers had ended when its deletion was requested. The one is a time of the node's
// clock, the other of the API server's.
func EndedBeforeDeletion(pod *corev1.Pod) bool {
	var grace time.Duration
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	end, known := EndedBy(pod)
	return known && end.Before(pod.DeletionTimestamp.Add(-grace))
}

// EndedBy returns by when a Pod had ended, by the API server's clock: if the clock of its node is behind, that is later than EndedAt says.
func EndedBy(pod *corev1.Pod) (at time.Time, known bool) {
	end, known := EndedAt(pod)
	return end.Add(clockLag(pod)), known
}

// maxPickUp is how long a kubelet takes at most to see a Pod that was bound to its node, as far as
// clockLag is concerned.
const maxPickUp = 10 * time.Second

// clockLag returns by how much the clock of a Pod's node may be behind the API server's, 0 if
// nothing suggests that it is: the kubelet can't have seen the Pod before it was bound. A clock
// that is ahead does no harm: what ended before the deletion may seem to have ended after it, and
// runs again.
func clockLag(pod *corev1.Pod) time.Duration {
	bound := Condition(pod, corev1.PodScheduled)
	if bound == nil || bound.Status != corev1.ConditionTrue || pod.Status.StartTime == nil {
		return 0
	}
	const resolution = time.Second // of times in the API
	lag := bound.LastTransitionTime.Sub(pod.Status.StartTime.Time)
	if lag <= resolution {
		return 0
	}
	return lag + maxPickUp
}
