// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"slices"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// minHistory is the minimum time for which a finished plan is kept: what it cost counts
// against the hourly budgets.
const minHistory = time.Hour

// Outdated returns the finished plans that are no longer kept: those older than keep, and
// the oldest of more than limit, but none of the last hour.
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
		if age := now.Sub(plan.Status.CompletionTime.Time); age > max(keep, minHistory) || (i >= limit && age > minHistory) {
			outdated = append(outdated, plan)
		}
	}
	return outdated
}

// MayBeApproved reports whether a plan waits for somebody to approve it.
func MayBeApproved(plan *v1.MovePlan) bool {
	return !plan.Spec.Approved && !plan.Spec.Abort && !Finished(plan)
}

// Finished reports whether a plan has ended: it is done or aborted.
func Finished(plan *v1.MovePlan) bool {
	return plan.Status.Phase == v1.PlanDone || plan.Status.Phase == v1.PlanAborted
}
