// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// countSuccesses records the members that have succeeded, so that they are not run again if
// their Pods are deleted.
func (d *decision) countSuccesses() {
	for _, m := range d.members {
		if m.pod != nil && !m.stale && !m.failed && m.state == podSucceeded {
			d.completed.add(m.index)
			m.succeeded = true
			d.forgetRestarts(m)
		}
	}
	if d.status.CompletedIndexes = d.completed.String(); d.status.CompletedIndexes != d.Task.Status.CompletedIndexes {
		d.status.Losses = nil // the task gets on
	}
	d.status.Succeeded = int32(d.countSucceeded()) //nolint:gosec // at most 10000
}

// countFailures counts the failures of the current attempts, each exactly once: raising the
// attempt makes the failed Pods stale in the same write of the status. Members that fail
// together restart together and so count as one failure, unless each Pod restarts by
// itself.
func (d *decision) countFailures() {
	if d.isFailing() || d.hasSucceeded() {
		return
	}
	failed, action := d.failedMembers()
	if len(failed) == 0 {
		return
	}
	message := failureOf(failed[0].pod)
	if action == v1.ActionFailTask {
		d.setFailureTarget(v1.ReasonFailureRule, message+"; a rule in spec.failureRules makes the task fail")
		return
	}
	if d.Task.Spec.BackoffLimitPerIndex != nil {
		if failed = d.failExhausted(failed); len(failed) == 0 || d.isFailing() {
			return
		}
	}
	failures := int32(1)
	if action == v1.ActionRestartPod {
		failures = int32(len(failed)) //nolint:gosec // at most 10000
	}
	limit := d.backoffLimit()
	if d.Task.Spec.BackoffLimitPerIndex == nil && d.status.Restarts+failures > limit {
		d.setFailureTarget(v1.ReasonBackoffLimitExceeded,
			fmt.Sprintf("%s; no restarts are left (spec.backoffLimit is %d)", message, limit))
		return
	}
	d.status.Restarts += failures
	d.status.LastFailureTime = d.lastEnd(failed)
	if action == v1.ActionRestartPod {
		d.restartPods(failed)
	} else {
		d.restartTask(d.status.LastFailureTime)
	}
	if !d.areEnough(d.running()) {
		d.setCondition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting, message)
	}
}

// failedMembers returns the members whose current attempt has failed and call for the most drastic action, in the order
// in which they failed, and this action. Members whose failure is to be ignored become lost ones.
func (d *decision) failedMembers() (failed []*member, action v1.FailureAction) {
	byAction := map[v1.FailureAction][]*member{}
	defer func() { d.rememberNodes(byAction) }()
	for _, m := range d.members {
		if m.pod == nil || m.stale || m.done() || m.state != podFailed && m.state != podLost {
			continue
		}
		switch action := d.actionFor(m); action {
		case "":
		case v1.ActionIgnore:
			m.state, m.ignored = podLost, true
		default:
			byAction[action] = append(byAction[action], m)
		}
	}
	for _, members := range byAction {
		slices.SortStableFunc(members, byEnd)
	}
	for _, m := range byAction[v1.ActionFailIndex] {
		d.failIndex(m)
	}
	for _, action := range []v1.FailureAction{v1.ActionFailTask, v1.ActionRestartTask, v1.ActionRestartPod} {
		if len(byAction[action]) > 0 {
			return byAction[action], action
		}
	}
	return nil, ""
}

// restartTask raises the attempt of all members. lastFailure is when the last one failed, nil if
// it did not.
func (d *decision) restartTask(lastFailure *metav1.Time) {
	next := int32(0)
	for _, m := range d.members {
		next = max(next, m.attempt+1)
	}
	d.status.TaskRestarts = &v1.TaskRestarts{Count: next, LastFailureTime: lastFailure}
	d.status.PodRestarts = nil
	d.completed = indexSet{}
	d.status.CompletedIndexes, d.status.Succeeded = "", 0
	for _, m := range d.members {
		m.start = currentStart(d.Task, d.status, m.index)
		m.stale, m.succeeded = true, false
	}
}

// restartPods raises the attempt of some members.
func (d *decision) restartPods(failed []*member) {
	whole := taskRestarts(d.Task, &d.Task.Status)
	d.status.TaskRestarts = &whole
	for _, m := range failed {
		if _, found := findRestarts(d.status, m.index); !found {
			m.failures = 0 // those of the whole task are over
		}
		m.failures++
		m.lastFailure = d.lastEnd([]*member{m})
		m.stale = true
		recordAttempt(d.status, m)
		m.start = currentStart(d.Task, d.status, m.index)
	}
}

// lastEnd returns when the last of some members ended, now at the latest. Their restart follows after a pause from then
// on, which a clock that is behind must not shorten.
func (d *decision) lastEnd(failed []*member) *metav1.Time {
	var last time.Time
	for _, m := range failed {
		if end, known := podfacts.EndedBy(m.pod); known && end.After(last) {
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
	if seconds == nil || d.status.StartTime == nil || d.isFailing() || d.hasSucceeded() || d.hasOutdatedPods() { // they restart the deadline
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
	return ptr.Deref(d.Task.Spec.BackoffLimit, defaultBackoffLimit)
}

// defaultBackoffLimit is the default of the CRD's schema.
const defaultBackoffLimit = 6

// applyTTL requests the deletion of a finished task whose TTL has expired. A task that
// others wait for is kept until they have seen how it ended.
func (d *decision) applyTTL() {
	ttl := cmp.Or(d.Task.Spec.TTLSecondsAfterFinished, d.Config.TTLSecondsAfterFinished)
	if ttl == nil || d.status.CompletionTime == nil || d.HasWaitingDependents || d.isDeleted() {
		return
	}
	left := d.status.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(d.Now)
	if left > 0 {
		d.requeueAfter(left)
		return
	}
	d.plan.DeleteTask = true
}
