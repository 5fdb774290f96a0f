// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"fmt"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// drift checks whether the rest of a plan can still be carried out as it was planned.
func (r *Rescheduler) drift(ctx context.Context, rest *v1.MovePlan) *moveplan.Drift {
	objects, err := r.gatherAll(ctx)
	if err != nil {
		return &moveplan.Drift{Err: err}
	}
	planner := reschedule.NewPlanner(clusterview.New(objects), &r.options.Planner)
	if err := reschedule.Valid(planner, rest, 0); err != nil {
		return &moveplan.Drift{Why: err.Error()}
	}
	return &moveplan.Drift{Why: r.exceededBudget(objects, planner.Ledger, rest)}
}

// exceededBudget returns which budget a plan would exceed. It counts the work that would be
// lost now: more than was planned if the plan has waited for approval.
func (r *Rescheduler) exceededBudget(objects *clusterview.Objects, ledger *reschedule.Ledger, rest *v1.MovePlan) string {
	if left, limited := ledger.MovesLeft(&r.options.Planner); limited && left < len(rest.Spec.Moves) {
		return fmt.Sprintf("%d Pods are to be moved, %d of %d are left in this hour", len(rest.Spec.Moves), left, r.options.Planner.MovesPerHour)
	}
	moved := podsMovedBy(rest)
	lost := map[string]int64{}
	for i := range objects.Tasks {
		for _, pod := range objects.Tasks[i].Pods {
			if moved.Has(pod.UID) {
				lost[pod.Namespace] += reschedule.Lost(objects.Tasks[i].GPUTask, pod, objects.Now)
			}
		}
	}
	for namespace, seconds := range lost {
		if left, limited := ledger.GPUSecondsLeft(&r.options.Planner, namespace); limited && left < seconds {
			return fmt.Sprintf("%d GPU-minutes of namespace %s would be lost, %d of %d are left in this hour",
				seconds/60, namespace, left/60, r.options.Planner.GPUMinutesPerHour)
		}
	}
	return ""
}
