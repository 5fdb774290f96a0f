// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// unreachableCheck is how often to look whether the node of a Pod that does not stop is unreachable.
const unreachableCheck = 10 * time.Second

// leaveUnreachableNodes requests the forced deletion of Pods that should have stopped, and whose
// node has been unreachable for as long as the task says.
func (d *decision) leaveUnreachableNodes() {
	seconds := d.Task.Spec.UnreachableNodeTimeoutSeconds
	if seconds == nil || d.UnreachableSince == nil {
		return
	}
	timeout := time.Duration(*seconds) * time.Second
	for _, pod := range d.Pods {
		if outcomeOf(pod) != podTerminating || pod.Spec.NodeName == "" {
			continue
		}
		if left := pod.DeletionTimestamp.Sub(d.Now); left >= 0 {
			d.requeueAfter(left)
			continue
		}
		since, unreachable := d.UnreachableSince(pod.Spec.NodeName)
		if unreachable && d.Now.Sub(since) >= timeout {
			d.plan.ForceDelete = append(d.plan.ForceDelete, pod)
			continue
		}
		d.requeueAfter(unreachableCheck)
	}
}

// IsOverdue reports whether a Pod should have stopped by now, and its node has not confirmed that it
// has.
func IsOverdue(pod *corev1.Pod, now time.Time) bool {
	return pod.Spec.NodeName != "" && outcomeOf(pod) == podTerminating && pod.DeletionTimestamp.Time.Before(now)
}
