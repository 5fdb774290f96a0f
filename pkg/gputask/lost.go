// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// restartIfLost restarts a gang that was running and has lost a Pod, if the task says so. That is
// no failure: it does not count, and there is no backoff.
func (d *decision) restartIfLost() {
	if d.Task.Spec.OnLostPod != v1.LostPodRestartTask || !IsGang(d.Task) || d.isFailing() || d.hasSucceeded() || SuspensionRequested(d.Task) || d.isHeld() ||
		!meta.IsStatusConditionTrue(d.Task.Status.Conditions, v1.ConditionRunning) {
		return
	}
	lost := d.lostMember()
	if lost == nil {
		return
	}
	d.restartTask(nil)
	d.setCondition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting,
		fmt.Sprintf("Pod %s was lost or deleted, and spec.onLostPod is RestartTask", PodName(d.Task, lost.index)))
}

// lostMember returns a member of a running gang that has lost its Pod, nil if there is none.
func (d *decision) lostMember() *member {
	for _, m := range d.members {
		if m.done() || m.stale || m.ignored || d.isJoining(m) {
			continue
		}
		if m.pod == nil && d.hasLostPod(m) || m.pod != nil && (m.state == podLost || m.state.isLeaving()) {
			return m
		}
	}
	return nil
}

// isJoining reports whether a member of an elastic gang may be one that is to join it: those that
// the status does not count yet, and, until all have run, any.
func (d *decision) isJoining(m *member) bool {
	if d.Task.Spec.MaxReplicas == nil {
		return false
	}
	running := meta.FindStatusCondition(d.Task.Status.Conditions, v1.ConditionRunning)
	return m.index >= int(d.Task.Status.Total) || running.Reason != reasonAllRunning
}

// hasLostPod reports whether a member of a running gang that has no Pod has lost it. Otherwise, a
// refusal keeps it from being created, or the member restarts by itself after a failure.
func (d *decision) hasLostPod(m *member) bool {
	_, restarts := findRestarts(d.status, m.index)
	return d.Refusal == nil && !restarts
}
