// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// StoppedBy returns in a few words what stops a Pod other than itself, or has: "preempted", "evicted", "refused by its
// node" …; "" if nothing does, or it can't be seen.
func StoppedBy(pod *corev1.Pod) string {
	condition := disruption(pod)
	if condition == nil {
		switch OutcomeOf(pod) {
		case Refused:
			return "refused by its node"
		case Lost:
			return lostWithNode
		default:
			return ""
		}
	}
	switch condition.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		return "preempted"
	case "EvictionByEvictionAPI":
		return "evicted"
	case "DeletionByTaintManager", "DeletionByPodGC":
		return lostWithNode
	case "DeletionByDeviceTaintManager":
		return "lost with its device"
	case corev1.PodReasonTerminationByKubelet:
		return "stopped by its node"
	default:
		return "stopped: " + condition.Reason
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
