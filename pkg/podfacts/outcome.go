// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is what has become of a Pod, whether it is being deleted or not.
type Outcome int

const (
	// Pending means that the Pod waits for a node or for its containers.
	Pending Outcome = iota
	// Running means that its containers run, or may: on a node that does not answer, nobody knows.
	Running
	// Succeeded means that its containers have ended by themselves, with exit code 0.
	Succeeded
	// Failed means that it ended by its own fault, an exceeded limit of its own included.
	Failed
	// Refused means that its node gave it up before any container had started.
	Refused
	// Lost means that it ended by no fault of its own, after it was stopped or lost with its node.
	Lost
)

// OutcomeOf returns what has become of a Pod.
func OutcomeOf(pod *corev1.Pod) Outcome {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		if isStoppedByNode(pod) {
			return Lost // what a program does on SIGTERM, exit code 0 included, says nothing about its work
		}
		return Succeeded
	case corev1.PodFailed:
		return whyFailed(pod)
	case corev1.PodRunning, corev1.PodUnknown:
		return Running
	default:
		return Pending
	}
}

// Ended reports whether a Pod has ended, however: it no longer holds anything of its node, even if a finalizer keeps
// it.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// HoldsNode reports whether a Pod has a node, and may still use what it got there.
func HoldsNode(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !Ended(pod) }

// WasRefused reports whether a node gave up a Pod before any of its containers had started.
func WasRefused(pod *corev1.Pod) bool { return OutcomeOf(pod) == Refused }

// whyFailed returns by whose fault a Pod in phase Failed has ended. The kubelet gives a reason if it has ended the Pod
// itself, and waits for its containers to end. It adds the condition DisruptionTarget, unless the Pod has exceeded a
// limit of its own.
func whyFailed(pod *corev1.Pod) Outcome {
	ownEnd := pod.Status.Reason == ""
	switch {
	case IsDisrupted(pod):
		return Lost
	case ownEnd && endIsUnknown(pod):
		return Lost
	case !ownEnd && anyStatus(pod, isRunning):
		return Lost // somebody else says that it has failed, as its node does not answer
	case isRejected(pod) && EverStarted(pod):
		return Lost // a kubelet that starts admits again what it finds on its node: after a reboot, devices are missing
	case EverStarted(pod):
		return Failed
	case ownEnd && pod.Spec.NodeName == "":
		return Lost // it has met no node that could have refused it
	default:
		return Refused
	}
}

// isRejected reports whether the kubelet has not admitted a Pod that has failed. It begins the message of all of them
// like this, whatever the reason.
func isRejected(pod *corev1.Pod) bool {
	return strings.HasPrefix(pod.Status.Message, "Pod was rejected: ")
}
