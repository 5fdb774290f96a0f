// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/preemption"
)

// longestGraceSeconds bounds the grace periods for which nodes are kept: Pods may have any.
const longestGraceSeconds = 3600

// LongestTime returns how long it takes at most until Pods are gone that are told to leave now, as far as nodes are
// kept for it.
func LongestTime(victims []*corev1.Pod, taken *preemption.Queues) time.Duration {
	return checkpointTime(victims, taken) + graceOf(victims)
}

// graceOf returns the longest time that Pods may take to end once they are deleted, as far as nodes are kept for it.
func graceOf(pods []*corev1.Pod) (longest time.Duration) {
	for _, pod := range pods {
		seconds := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		longest = max(longest, time.Duration(min(seconds, longestGraceSeconds))*time.Second)
	}
	return longest
}

// GraceEnd returns when the grace period of a Pod ends, as far as nodes are kept for it; zero if the Pod was not
// deleted.
func GraceEnd(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	beyond := max(0, ptr.Deref(pod.DeletionGracePeriodSeconds, 0)-longestGraceSeconds)
	return time.Unix(pod.DeletionTimestamp.Unix()-beyond, 0)
}
