// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// BoundAt returns when a Pod got its node, by the API server's clock: as long as the scheduler's condition does not say
// it, when its node saw it, by that node's clock, or when it was created, for a Pod that was created with a node.
func BoundAt(pod *corev1.Pod) (at time.Time, known bool) {
	if bound := Condition(pod, corev1.PodScheduled); bound != nil && bound.Status == corev1.ConditionTrue && !bound.LastTransitionTime.IsZero() {
		return bound.LastTransitionTime.Time, true
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time, true
	}
	return pod.CreationTimestamp.Time, !pod.CreationTimestamp.IsZero()
}

// EndedAt returns when the last container of a Pod ended: of those for initialization, one that has failed. It is not
// known of Pods that were stopped before a container ran, and of those whose containers were lost.
func EndedAt(pod *corev1.Pod) (at time.Time, known bool) {
	for _, end := range Ends(pod) {
		if (end.ExitCode != 0 || RoleOf(pod, end.Container) != Init) && end.FinishedAt.After(at) {
			at = end.FinishedAt.Time
		}
	}
	return ServerTime(pod, at), !at.IsZero()
}

// BeganAt returns when the first container of a Pod began; those for initialization do not count. One that could not be
// started has no begin, though a container runtime may write one of 1970.
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
	return ServerTime(pod, at), !at.IsZero()
}

// Started returns when a Pod began its current work: a container that was restarted has lost everything before.
func Started(pod *corev1.Pod) time.Time {
	work := WorkContainer(pod)
	for i := range pod.Status.ContainerStatuses { // a trimmed Pod has only those that were restarted
		if status := &pod.Status.ContainerStatuses[i]; status.Name == work && WasRestarted(status) {
			return ServerTime(pod, status.State.Running.StartedAt.Time)
		}
	}
	return FirstStarted(pod)
}

// FirstStarted returns when a Pod began its first work. Its owner can't put that off by restarting it.
func FirstStarted(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return ServerTime(pod, pod.Status.StartTime.Time)
	}
	return pod.CreationTimestamp.Time
}

// EndedBeforeDeletion reports whether a Pod's containers had ended when its deletion was requested.
func EndedBeforeDeletion(pod *corev1.Pod) bool {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	end, known := EndedBy(pod)
	return known && end.Before(pod.DeletionTimestamp.Add(-grace))
}

// EndedBy returns by when a Pod had certainly ended, which may be later than EndedAt says. If its node's clock is
// ahead, what ended before a deletion may so seem to have ended after it, and runs again, which does no harm.
func EndedBy(pod *corev1.Pod) (at time.Time, known bool) {
	end, known := EndedAt(pod)
	switch wrong := clockError(pod); {
	case wrong > 0: // or its node was slow to see it
		end = end.Add(wrong)
	case wrong < 0:
		end = end.Add(maxPickUp)
	}
	return end, known
}

const (
	// resolution is that of times in the API.
	resolution = time.Second
	// maxPickUp is how long a kubelet usually takes at most to see a Pod that was bound to its node.
	maxPickUp = 10 * time.Second
	// maxLatePickUp is how long a kubelet takes that has just died, or its node: after 50 seconds, Kubernetes takes the
	// node for unreachable, and it evicts its Pods after 5 minutes more. A clock that is less ahead looks the same.
	maxLatePickUp = 6 * time.Minute
)

// ServerTime returns when it was by the API server's clock what it was by the clock of a Pod's node. The zero time
// stays as it is.
func ServerTime(pod *corev1.Pod, node time.Time) time.Time {
	if node.IsZero() {
		return node
	}
	return node.Add(-clockError(pod))
}

// NodeTime is the opposite of ServerTime.
func NodeTime(pod *corev1.Pod, server time.Time) time.Time { return server.Add(clockError(pod)) }

// clockError returns by how much the clock of a Pod's node is ahead of the API server's, or behind it if that is
// negative; 0 if nothing suggests either. The kubelet can't have seen the Pod before it was bound, and sees it within
// maxLatePickUp after that.
func clockError(pod *corev1.Pod) time.Duration {
	bound := Condition(pod, corev1.PodScheduled)
	if bound == nil || bound.Status != corev1.ConditionTrue || bound.LastTransitionTime.IsZero() || pod.Status.StartTime == nil {
		return 0
	}
	seen := pod.Status.StartTime.Sub(bound.LastTransitionTime.Time)
	if -resolution <= seen && seen <= maxLatePickUp {
		return 0
	}
	return seen
}
