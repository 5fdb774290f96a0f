// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// IsDisrupted reports whether somebody stops a Pod, or has, or its node does to save itself: by preemption, eviction, a
// taint, a shutdown. An eviction for exceeding a limit of its own is none.
func IsDisrupted(pod *corev1.Pod) bool { return disruption(pod) != nil }

// isStoppedByNode reports whether its node has stopped a Pod. The kubelet says so when the containers have ended,
// whatever their exit codes.
func isStoppedByNode(pod *corev1.Pod) bool {
	condition := disruption(pod)
	return condition != nil && condition.Reason == corev1.PodReasonTerminationByKubelet
}

// Interruption returns what stops a Pod, or has, as far as it says so itself, and when; "" if nothing does. An eviction
// of whatever purpose is InterruptionEvicted.
func Interruption(pod *corev1.Pod) (reason v1.InterruptionReason, at metav1.Time) {
	condition := disruption(pod)
	if condition == nil {
		return "", metav1.Time{}
	}
	reason = v1.InterruptionDisrupted
	switch condition.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		reason = v1.InterruptionPreempted
	case "EvictionByEvictionAPI":
		reason = v1.InterruptionEvicted
	case "DeletionByTaintManager", "DeletionByPodGC":
		reason = v1.InterruptionNodeLost
	case corev1.PodReasonTerminationByKubelet:
		reason = v1.InterruptionStoppedByNode
	}
	return reason, condition.LastTransitionTime
}

// StoppedBy returns in a few words what stops a Pod other than itself, or has: "preempted", "evicted", "refused by its
// node" …; "" if nothing does, or it can't be seen.
func StoppedBy(pod *corev1.Pod) string {
	switch reason, _ := Interruption(pod); reason {
	case "":
		return stoppedUnsaid(pod)
	case v1.InterruptionNodeLost:
		return lostWithNode
	case v1.InterruptionStoppedByNode:
		return "stopped by its node"
	case v1.InterruptionDisrupted:
		if why := disruption(pod).Reason; why != "DeletionByDeviceTaintManager" {
			return "stopped: " + why
		}
		return "lost with its device"
	default:
		return strings.ToLower(string(reason))
	}
}

// stoppedUnsaid is StoppedBy for a Pod that does not say so itself.
func stoppedUnsaid(pod *corev1.Pod) string {
	switch OutcomeOf(pod) {
	case Refused:
		return "refused by its node"
	case Lost:
		return lostWithNode
	default:
		return ""
	}
}

const lostWithNode = "lost with its node"

func disruption(pod *corev1.Pod) *corev1.PodCondition {
	condition := Condition(pod, corev1.DisruptionTarget)
	if condition == nil || condition.Status != corev1.ConditionTrue {
		return nil
	}
	return condition
}

// Condition returns a condition of a Pod, nil if it has none of the type.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &pod.Status.Conditions[at]
}
