// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/podfacts"
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
	// podLost: the Pod ended by no fault of its own, or its node refused it, and has to be replaced.
	podLost
	// podTerminating: the Pod is being deleted; its name is free once it is gone.
	podTerminating
	// podStopped: so it is, and it has stopped: only a finalizer, or its node, still has to let it go.
	podStopped
)

// outcomeOf returns what a Pod's status means to its task. A Pod that is being deleted
// counts as ended by itself only if it ended before its deletion was requested: what it
// does on SIGTERM, exit code 0 included, says nothing about its work.
func outcomeOf(pod *corev1.Pod) outcome {
	if pod.DeletionTimestamp != nil && !endedByItself(pod) {
		if podfacts.Ended(pod) {
			return podStopped
		}
		return podTerminating
	}
	switch podfacts.OutcomeOf(pod) {
	case podfacts.Succeeded:
		return podSucceeded
	case podfacts.Failed:
		return podFailed
	case podfacts.Refused, podfacts.Lost:
		return podLost
	case podfacts.Running:
		return podRunning
	case podfacts.Pending:
	}
	return podPending
}

// endedByItself reports whether a Pod that is being deleted had ended before, and not because somebody was about to
// stop it.
func endedByItself(pod *corev1.Pod) bool {
	return podfacts.Ended(pod) && podfacts.EndedBeforeDeletion(pod) && (pod.Status.Phase == corev1.PodFailed || !podfacts.IsDisrupted(pod))
}

// isActive reports whether the Pod holds, or may come to hold, a node.
func (o outcome) isActive() bool {
	return o == podPending || o == podRunning || o == podTerminating
}

// isLeaving reports whether the Pod is being deleted, and did not end before.
func (o outcome) isLeaving() bool { return o == podTerminating || o == podStopped }

// endOf returns when a Pod ended; the zero time if nobody knows.
func endOf(pod *corev1.Pod) time.Time {
	end, _ := podfacts.EndedAt(pod)
	return end
}

// failureOf returns which Pod failed and why.
func failureOf(pod *corev1.Pod) string {
	return fmt.Sprintf("Pod %s: %s", pod.Name, failureText(pod))
}

// failureText returns in a few words why a Pod failed. A reason of the Pod means that the kubelet has ended it: how its
// containers ended says no more.
func failureText(pod *corev1.Pod) string {
	said, ended := strings.TrimRight(pod.Status.Message, ". "), endText(pod)
	if pod.Status.Reason == "" {
		return cmp.Or(ended, said, "failed without a reason")
	}
	return strings.TrimSuffix(pod.Status.Reason+": "+cmp.Or(said, ended), ": ")
}

// endText returns how the container ended for which a Pod has failed, "" if none has.
func endText(pod *corev1.Pod) string {
	end, found := podfacts.Failure(pod)
	if !found {
		return ""
	}
	text := fmt.Sprintf("container %s ended with exit code %d", end.Container, end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" {
		text += " (" + end.Reason + ")"
	}
	if message := lastWords(end.Message); message != "" {
		text += ": " + message
	}
	return text
}

// maxLastWords bounds what is reported of a container's termination message, in bytes.
const maxLastWords = 256

// lastWords returns a container's termination message in one line. Of a long one, it is the end: what a program writes
// last says why it ended.
func lastWords(message string) string {
	line := strings.Join(strings.Fields(message), " ")
	if len(line) <= maxLastWords {
		return line
	}
	return "…" + strings.ToValidUTF8(line[len(line)-maxLastWords:], "")
}
