// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// maxNodeRefusals is how often nodes may refuse a task's Pods before it fails, if there are no other
// nodes for them. With the default backoff, that takes more than two hours. maxNodeRefusalsByMany is the
// limit if as many nodes have refused some as are remembered, so that the others may have as well;
// that takes about 16 hours.
const (
	maxNodeRefusals       = 20
	maxNodeRefusalsByMany = 100
)

// countNodeRefusals counts the refusals of Pods by their nodes. Of Pods that are refused at about the
// same time, one counts: a Pod counts if it is younger than the last one that did.
func (d *decision) countNodeRefusals() {
	if d.hasSucceeded() {
		return
	}
	d.rememberNodeRefusals()
	last := d.lastNodeRefusal()
	if last == nil {
		if d.allRunOrHaveEnded() || IsArray(d.Task) && d.running() > 0 {
			d.status.Refusals = nil
		}
		return
	}
	refused, before := last.pod, d.status.Refusals
	if before != nil && !refused.CreationTimestamp.After(before.LastPodTime.Time) {
		return
	}
	count := int32(1)
	if before != nil {
		count += before.Count
	}
	d.status.Refusals = &v1.Refusals{
		Count: count, LastPodTime: refused.CreationTimestamp, Node: refused.Spec.NodeName,
		Message: shorten(cmp.Or(refused.Status.Message, refused.Status.Reason)),
	}
	if count > maxNodeRefusals && !d.areEnough(d.running()) && !d.hasOtherNodes(last) {
		d.setFailureTarget(v1.ReasonRefusedByNodes, fmt.Sprintf("nodes have refused its Pods %d times, and no others are known for them; the last time Pod %s: %s",
			count, refused.Name, d.status.Refusals.Message))
	}
}

// hasOtherNodes reports whether there are nodes for a member's next Pod that have not refused one
// of the task, as far as is remembered. They may be full now.
func (d *decision) hasOtherNodes(m *member) bool {
	forgets := len(d.status.FailedNodes) == maxFailedNodes
	if d.OtherNodes == nil || forgets && d.status.Refusals.Count > maxNodeRefusalsByMany {
		return false
	}
	pod, err := d.newPod(m)
	return err == nil && d.OtherNodes(pod, failedNodeNames(d.status))
}

// lastNodeRefusal returns the member whose Pod is the youngest of those that nodes have refused, nil if
// there is none. Of Pods of the same age it is the one with the lowest index.
func (d *decision) lastNodeRefusal() *member {
	var last *member
	for _, m := range d.members {
		if m.isRefusedByNode() && (last == nil || m.pod.CreationTimestamp.After(last.pod.CreationTimestamp.Time)) {
			last = m
		}
	}
	return last
}

// isRefusedByNode reports whether a node has refused the Pod of the member's current attempt.
func (m *member) isRefusedByNode() bool {
	return m.pod != nil && !m.stale && podfacts.WasRefused(m.pod)
}

// nodeRefusalTime returns when a node refused a Pod, as far as is known. The kubelet sets the start
// time of what it refuses; its clock may be behind the API server's.
func nodeRefusalTime(pod *corev1.Pod) metav1.Time {
	if start := pod.Status.StartTime; start != nil && start.After(pod.CreationTimestamp.Time) {
		return *start
	}
	return pod.CreationTimestamp
}

// nodeRefusalPause returns how long a Pod that its node has refused is kept before it is replaced.
func (d *decision) nodeRefusalPause() time.Duration {
	if d.status.Refusals == nil {
		return lostPodPause
	}
	return max(lostPodPause, d.Config.Backoff.After(d.status.Refusals.Count))
}

// nodeRefusalText returns why a node has refused a Pod, and when the next one is created; "" if none
// has.
func (d *decision) nodeRefusalText() string {
	last := d.lastNodeRefusal()
	if last == nil || d.status.Refusals == nil {
		return ""
	}
	refused := last.pod
	text := fmt.Sprintf("node %s has refused Pod %s: %s", refused.Spec.NodeName, refused.Name, d.status.Refusals.Message)
	next := refused.CreationTimestamp.Add(d.nodeRefusalPause())
	if !next.After(d.Now) {
		return text
	}
	return fmt.Sprintf("%s; attempt %d at %s", text, d.status.Refusals.Count+1, timeText(next))
}
