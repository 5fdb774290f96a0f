// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"slices"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

// LedgerPeriod is the period of the budgets.
const LedgerPeriod = time.Hour

// Ledger records what moves have cost in the last hour.
type Ledger struct {
	// Moves is how many Pods were evicted.
	Moves int
	// LostGPUSeconds is the work that was lost, by namespace.
	LostGPUSeconds map[string]int64
	// CausedGPUSeconds is the work of other namespaces that was lost for the tasks of a
	// namespace, by the latter.
	CausedGPUSeconds map[string]int64

	plans []*v1.MovePlan
}

// NewLedger returns the ledger for the hour before now, computed from plans.
func NewLedger(plans []*v1.MovePlan, now time.Time) *Ledger {
	l := &Ledger{LostGPUSeconds: map[string]int64{}, CausedGPUSeconds: map[string]int64{}, plans: plans}
	for _, plan := range plans {
		for i := range plan.Status.Moves {
			move := &plan.Status.Moves[i]
			if move.EvictedAt == nil || now.Sub(move.EvictedAt.Time) >= LedgerPeriod || i >= len(plan.Spec.Moves) {
				continue
			}
			l.Moves++
			namespace := plan.Spec.Moves[i].Task.Namespace
			l.LostGPUSeconds[namespace] += move.LostGPUSeconds
			if plan.Spec.For != nil && plan.Spec.For.Namespace != namespace {
				l.CausedGPUSeconds[plan.Spec.For.Namespace] += move.LostGPUSeconds
			}
		}
	}
	return l
}

// Record adds the eviction of a Pod that no plan records.
func (l *Ledger) Record(namespace string, lostGPUSeconds int64) {
	l.Moves++
	l.LostGPUSeconds[namespace] += lostGPUSeconds
}

// MovesLeft returns how many Pods may still be moved in this hour; limited is false if
// there is no limit.
func (l *Ledger) MovesLeft(o *Options) (left int, limited bool) {
	if o.MovesPerHour <= 0 {
		return 0, false
	}
	return max(0, o.MovesPerHour-l.Moves), true
}

// GPUSecondsLeft returns how much work of a namespace may still be lost in this hour;
// limited is false if there is no limit.
func (l *Ledger) GPUSecondsLeft(o *Options, namespace string) (left int64, limited bool) {
	return gpuSecondsLeft(o, l.LostGPUSeconds[namespace])
}

// CausableGPUSeconds returns how much work of other namespaces may still be lost in this hour for
// the tasks of a namespace: as much as may be lost of its own. limited is false if there is no
// limit.
func (l *Ledger) CausableGPUSeconds(o *Options, namespace string) (left int64, limited bool) {
	return gpuSecondsLeft(o, l.CausedGPUSeconds[namespace])
}

func gpuSecondsLeft(o *Options, used int64) (left int64, limited bool) {
	if o.GPUMinutesPerHour <= 0 {
		return 0, false
	}
	return max(0, o.GPUMinutesPerHour*secondsPerMinute-used), true
}

// NotBefore returns when the next plan for the same purpose may be proposed: for the same
// goal and, with GoalPendingTask, the same task. It is the zero time if the last one was
// not aborted.
func (l *Ledger) NotBefore(o *Options, goal v1.MovePlanGoal, task *v1.TaskReference) time.Time {
	return l.notBefore(o, func(plan *v1.MovePlan) bool { return plan.Spec.Goal == goal && sameTask(plan.Spec.For, task) })
}

// notBefore returns when the next plan may be proposed for the purpose that these plans had.
func (l *Ledger) notBefore(o *Options, alike func(*v1.MovePlan) bool) time.Time {
	var ended []*v1.MovePlan
	for _, plan := range l.plans {
		if plan.Status.CompletionTime != nil && alike(plan) && plan.Status.Reason != moveplan.ReasonStale {
			ended = append(ended, plan)
		}
	}
	slices.SortFunc(ended, func(a, b *v1.MovePlan) int {
		return b.Status.CompletionTime.Compare(a.Status.CompletionTime.Time)
	})
	wait := o.Backoff
	for i, plan := range ended {
		if plan.Status.Phase != v1.PlanAborted {
			break
		}
		if i > 0 {
			wait = min(2*wait, MaxBackoff)
		}
	}
	if len(ended) == 0 || ended[0].Status.Phase != v1.PlanAborted {
		return time.Time{}
	}
	return ended[0].Status.CompletionTime.Add(wait)
}

func sameTask(a, b *v1.TaskReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Namespace == b.Namespace && a.Name == b.Name && (a.UID == b.UID || a.UID == "" || b.UID == "")
}
