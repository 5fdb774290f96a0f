// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// outcome is what a Pod's status means to its task.
type outcome int

const (
	// podPending: the Pod waits for a node or for its containers.
	podPending outcome = iota
	// podRunning: the Pod runs.
	podRunning
	// podSucceeded: the Pod ended with exit code 0.
	podSucceeded
	// podFailed: the Pod ended by its own fault.
	podFailed
	// podLost: the Pod ended by no fault of its own and has to be replaced.
	podLost
	// podTerminating: the Pod is being deleted; its name is free once it is gone.
	podTerminating
)

// refusalReasons are the values of pod.status.reason with which a kubelet reports that it refused
// the Pod, in addition to "OutOf<resource>".
var refusalReasons = []string{"NodeAffinity", "TopologyAffinityError", "UnexpectedAdmissionError"}

const refusalOutOf = "OutOf"

// lostReasons are further values with which a kubelet reports that a Pod ended for a cause
// outside the Pod. A Pod that was terminated for such a cause otherwise has the condition
// DisruptionTarget. "Evicted" is not among them: without that condition it means that the Pod
// exceeded a limit of its own.
var lostReasons = []string{"NodeLost", "NodeShutdown"}

// outcomeOf returns what a Pod's status means to its task. A Pod that is being deleted
// counts as ended by itself only if it ended before its deletion was requested: what it
// does on SIGTERM, exit code 0 included, says nothing about its work.
func outcomeOf(pod *corev1.Pod) outcome {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.DeletionTimestamp != nil && (!ended || !endedBeforeDeletion(pod)) {
		return podTerminating
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		if pod.DeletionTimestamp != nil && wasDisrupted(pod) {
			return podTerminating
		}
		return podSucceeded
	case corev1.PodFailed:
		if wasLost(pod) {
			return podLost
		}
		return podFailed
	case corev1.PodRunning, corev1.PodUnknown:
		return podRunning
	default:
		return podPending
	}
}

// isActive reports whether the Pod holds, or may come to hold, a node.
func (o outcome) isActive() bool {
	return o == podPending || o == podRunning || o == podTerminating
}

func wasLost(pod *corev1.Pod) bool {
	return WasRefused(pod) || slices.Contains(lostReasons, pod.Status.Reason) || wasDisrupted(pod)
}

// WasRefused reports whether a node refused a Pod before any of its containers started.
func WasRefused(pod *corev1.Pod) bool {
	reason := pod.Status.Reason
	return pod.Status.Phase == corev1.PodFailed &&
		(slices.Contains(refusalReasons, reason) || strings.HasPrefix(reason, refusalOutOf))
}

// wasDisrupted reports whether a Pod was preempted, evicted or removed from a failing node.
func wasDisrupted(pod *corev1.Pod) bool {
	condition := podCondition(pod, corev1.DisruptionTarget)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// endedBeforeDeletion reports whether a Pod's containers had ended when its deletion was
// requested. The one is a time of the node's clock, the other of the API server's.
func endedBeforeDeletion(pod *corev1.Pod) bool {
	var grace time.Duration
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	requested := pod.DeletionTimestamp.Add(-grace)
	end := endTime(pod)
	return !end.IsZero() && end.Add(clockLag(pod)).Before(requested)
}

// maxPickUp is how long a kubelet takes at most to see a Pod that was bound to its node, as far as
// clockLag is concerned.
const maxPickUp = 10 * time.Second

// clockLag returns by how much the clock of a Pod's node may be behind the API server's, 0 if
// nothing suggests that it is: the kubelet can't have seen the Pod before it was bound. A clock
// that is ahead does no harm: what ended before the deletion may seem to have ended after it, and
// runs again.
func clockLag(pod *corev1.Pod) time.Duration {
	bound := podCondition(pod, corev1.PodScheduled)
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

// endTime returns when the last container of a Pod ended, or the zero time if
// none did.
func endTime(pod *corev1.Pod) time.Time {
	var last time.Time
	for i := range pod.Status.ContainerStatuses {
		terminated := pod.Status.ContainerStatuses[i].State.Terminated
		if terminated != nil && terminated.FinishedAt.After(last) {
			last = terminated.FinishedAt.Time
		}
	}
	return last
}

// failureOf returns which Pod failed and why.
func failureOf(pod *corev1.Pod) string {
	return fmt.Sprintf("Pod %s: %s", pod.Name, failureText(pod))
}

// failureText returns in a few words why a Pod failed.
func failureText(pod *corev1.Pod) string {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		terminated := statuses[i].State.Terminated
		if terminated == nil || terminated.ExitCode == 0 {
			continue
		}
		text := fmt.Sprintf("container %s ended with exit code %d", statuses[i].Name, terminated.ExitCode)
		if terminated.Reason != "" && terminated.Reason != "Error" {
			text += " (" + terminated.Reason + ")"
		}
		return text
	}
	switch {
	case pod.Status.Message != "":
		return pod.Status.Message
	case pod.Status.Reason != "":
		return pod.Status.Reason
	default:
		return "failed without a reason"
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
