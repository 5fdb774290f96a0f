// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"slices"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// MinHistory is how long a plan that has ended is kept at least: what it cost counts
// against the budgets of an hour.
const MinHistory = time.Hour

// Outdated returns the plans that have ended and are no longer kept: those older
// than keep, and the oldest of more than limit, but none of the last hour.
func Outdated(plans []*v1.MovePlan, keep time.Duration, limit int, now time.Time) []*v1.MovePlan {
	var final []*v1.MovePlan
	for _, plan := range plans {
		if Finished(plan) && plan.Status.CompletionTime != nil {
			final = append(final, plan)
		}
	}
	slices.SortStableFunc(final, func(a, b *v1.MovePlan) int {
		return b.Status.CompletionTime.Compare(a.Status.CompletionTime.Time)
	})
	var outdated []*v1.MovePlan
	for i, plan := range final {
		if age := now.Sub(plan.Status.CompletionTime.Time); age > max(keep, MinHistory) || (i >= limit && age > MinHistory) {
			outdated = append(outdated, plan)
		}
	}
	return outdated
}

// Finished reports whether nothing more of a plan will be carried out.
func Finished(plan *v1.MovePlan) bool {
	return plan.Status.Phase == v1.PlanDone || plan.Status.Phase == v1.PlanAborted
}
