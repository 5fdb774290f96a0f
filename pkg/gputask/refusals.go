// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// maxRefusals is how often nodes may refuse a task's Pods before it fails. With the default
// backoff, that takes more than two hours.
const maxRefusals = 20

// countRefusals counts the refusals of Pods by their nodes. Of Pods that are refused at about the
// same time, one counts: a Pod counts if it is younger than the last one that did.
func (d *decision) countRefusals() {
	if d.hasSucceeded() {
		return
	}
	refused := d.lastRefused()
	if refused == nil {
		if d.allRunOrHaveEnded() || IsArray(d.Task) && d.running() > 0 {
			d.status.Refusals = nil
		}
		return
	}
	if last := d.status.Refusals; last != nil && !refused.CreationTimestamp.After(last.LastPodTime.Time) {
		return
	}
	count := int32(1)
	if d.status.Refusals != nil {
		count += d.status.Refusals.Count
	}
	d.status.Refusals = &v1.Refusals{
		Count: count, LastPodTime: refused.CreationTimestamp, Node: refused.Spec.NodeName,
		Message: shorten(cmp.Or(refused.Status.Message, refused.Status.Reason)),
	}
	if count > maxRefusals && !d.areEnough(d.running()) {
		d.setFailureTarget(v1.ReasonRefusedByNodes, fmt.Sprintf("nodes have refused its Pods %d times, the last time Pod %s: %s",
			count, refused.Name, d.status.Refusals.Message))
	}
}

// lastRefused returns the youngest of the Pods that nodes have refused, nil if there is none. Of
// Pods of the same age it is the one with the lowest index.
func (d *decision) lastRefused() *corev1.Pod {
	var last *corev1.Pod
	for i := range d.members {
		m := &d.members[i]
		if m.pod != nil && !m.stale && wasRefused(m.pod) && (last == nil || m.pod.CreationTimestamp.After(last.CreationTimestamp.Time)) {
			last = m.pod
		}
	}
	return last
}

// refusedFor returns how long a Pod that its node has refused is kept before it is replaced.
func (d *decision) refusedFor() time.Duration {
	if d.status.Refusals == nil {
		return lostPodPause
	}
	return max(lostPodPause, d.Config.Backoff.After(d.status.Refusals.Count))
}

// refusalText returns why a node has refused a Pod, and when the next one is created; "" if none
// has.
func (d *decision) refusalText() string {
	refused := d.lastRefused()
	if refused == nil || d.status.Refusals == nil {
		return ""
	}
	text := fmt.Sprintf("node %s has refused Pod %s: %s", refused.Spec.NodeName, refused.Name, d.status.Refusals.Message)
	next := refused.CreationTimestamp.Add(d.refusedFor())
	if !next.After(d.Now) {
		return text
	}
	return fmt.Sprintf("%s; attempt %d at %s UTC", text, d.status.Refusals.Count+1, next.UTC().Format(time.TimeOnly))
}
