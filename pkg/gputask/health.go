// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// reportHealth sets the conditions from which tools learn the health of objects of any kind. A task
// that runs is healthy, like a Job.
func (d *decision) reportHealth() {
	switch d.status.Phase {
	case v1.PhaseWaiting, v1.PhasePending:
		d.setCondition(v1.ConditionReconciling, metav1.ConditionTrue, string(d.status.Phase), "")
		return
	case v1.PhaseFailed:
		failed := meta.FindStatusCondition(d.status.Conditions, v1.ConditionFailed)
		d.setCondition(v1.ConditionStalled, metav1.ConditionTrue, failed.Reason, failed.Message)
	case v1.PhaseRunning, v1.PhaseSuspended, v1.PhaseSucceeded:
	}
	d.setConditionIfPresent(v1.ConditionReconciling, metav1.ConditionFalse, string(d.status.Phase))
}
