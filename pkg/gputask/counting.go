// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// countSuccesses records the members that have succeeded, so that they are not run again if
// their Pods are deleted.
func (d *decision) countSuccesses() {
	for i := range d.members {
		m := &d.members[i]
		if m.pod != nil && !m.stale && m.state == podSucceeded {
			d.completed.add(m.index)
		}
	}
	d.status.CompletedIndexes = d.completed.String()
	d.status.Succeeded = int32(len(d.completed)) //nolint:gosec // at most 4096 replicas
}

// countFailures counts the failures of the current attempts, each exactly once: raising the
// attempt makes the failed Pods stale in the same write of the status. Members that fail
// together restart together and so count as one failure, unless each Pod restarts by
// itself.
func (d *decision) countFailures() {
	if d.isFailing() {
		return
	}
	var failed []*member
	for i := range d.members {
		m := &d.members[i]
		if m.pod != nil && !m.stale && m.state == podFailed {
			failed = append(failed, m)
		}
	}
	if len(failed) == 0 {
		return
	}
	failures := int32(1)
	if d.Task.Spec.FailurePolicy == v1.RestartPod {
		failures = int32(len(failed)) //nolint:gosec // at most 4096 replicas
	}
	message := failureOf(failed[0].pod)
	limit := d.backoffLimit()
	if d.status.Restarts+failures > limit {
		d.setFailureTarget(v1.ReasonBackoffLimitExceeded,
			fmt.Sprintf("%s; no restarts are left (spec.backoffLimit is %d)", message, limit))
		return
	}
	d.status.Restarts += failures
	d.status.LastFailureTime = d.lastEnd(failed)
	d.restartMembers(failed)
	if !d.areEnough(d.running()) {
		d.setCondition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting, message)
	}
}

// restartMembers raises the attempt of the members that restart: the failed ones or all.
func (d *decision) restartMembers(failed []*member) {
	if d.Task.Spec.FailurePolicy == v1.RestartPod {
		for _, m := range failed {
			m.attempt++
			m.lastFailure = d.lastEnd([]*member{m})
			m.stale = true
			recordAttempt(d.status, m)
		}
		return
	}
	d.completed = indexSet{}
	d.status.CompletedIndexes, d.status.Succeeded = "", 0
	for i := range d.members {
		d.members[i].attempt = d.status.Restarts
		d.members[i].lastFailure = d.status.LastFailureTime
		d.members[i].stale = true
	}
}

func (d *decision) lastEnd(failed []*member) *metav1.Time {
	var last time.Time
	for _, m := range failed {
		if end := endTime(m.pod); end.After(last) {
			last = end
		}
	}
	if last.IsZero() || last.After(d.Now) {
		return d.now()
	}
	end := metav1.NewTime(last).Rfc3339Copy()
	return &end
}

func (d *decision) checkDeadline() {
	seconds := d.Task.Spec.ActiveDeadlineSeconds
	if seconds == nil || d.status.StartTime == nil || d.isFailing() || len(d.completed) == len(d.members) {
		return
	}
	left := d.status.StartTime.Add(time.Duration(*seconds) * time.Second).Sub(d.Now)
	if left > 0 {
		d.requeueAfter(left)
		return
	}
	d.setFailureTarget(v1.ReasonDeadlineExceeded,
		fmt.Sprintf("not finished %d s after its start (spec.activeDeadlineSeconds)", *seconds))
}

func (d *decision) backoffLimit() int32 {
	if d.Task.Spec.BackoffLimit == nil {
		return defaultBackoffLimit
	}
	return *d.Task.Spec.BackoffLimit
}

// defaultBackoffLimit is the default of the CRD's schema.
const defaultBackoffLimit = 6

// applyTTL requests the deletion of a finished task whose TTL has expired. A task that
// others wait for is kept until they have seen how it ended.
func (d *decision) applyTTL() {
	ttl := d.Task.Spec.TTLSecondsAfterFinished
	if ttl == nil || d.status.CompletionTime == nil || d.HasWaitingDependents {
		return
	}
	left := d.status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(d.Now)
	if left > 0 {
		d.requeueAfter(left)
		return
	}
	d.plan.DeleteTask = true
}
