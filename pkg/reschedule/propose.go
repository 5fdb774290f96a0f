// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"slices"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// Propose returns the plan to be proposed next; nil if there is none, with the reason in
// the report. The plan has no status and no name, only metadata.generateName.
//
// No plan is proposed while another one is carried out. While one waits for approval, only plans that need none are
// proposed, or plans for a waiting task if that one has another goal. Of the goals, UnhealthyGPUs comes before
// PendingTask, since its task may not work any more, and that before Capacity. Nothing is moved for Capacity while
// tasks wait that could fit: the budgets are kept for them.
func Propose(objects *clusterview.Objects, o *Options) (*v1.MovePlan, *Report) {
	report := &Report{}
	p := NewPlanner(clusterview.New(objects), o)
	report.Problems = p.Problems
	if p.busy(report) {
		return nil, report
	}
	if left, limited := p.Ledger.MovesLeft(&p.Options); limited && left == 0 {
		report.Why = fmt.Sprintf("%s moved within an hour, no more than %d may be", plural.Count(p.Ledger.Moves, "Pod")+plural.Verb(p.Ledger.Moves, " was", " were"), p.Options.MovesPerHour)
		return nil, report
	}
	if p.Options.Mode == Recreate {
		return p.recreate(report), report
	}
	if plan := p.leaveUnhealthy(report); plan != nil {
		return plan, report
	}
	plan, blocked := p.makeRoomForOne(report)
	if plan == nil && !blocked {
		plan = p.pack(report)
	}
	return plan, report
}

// busy reports whether a plan is being carried out. It collects the plans that wait for
// approval.
func (p *Planner) busy(report *Report) bool {
	for _, plan := range p.Plans {
		switch {
		case moveplan.Finished(plan):
		case plan.Spec.Approved || plan.Status.Phase == v1.PlanApproved || plan.Status.Phase == v1.PlanExecuting:
			report.Why = fmt.Sprintf("MovePlan %s is being carried out", plan.Name)
		default:
			p.proposals = append(p.proposals, plan)
			if why := Stale(p, plan); why != "" {
				report.Stale = append(report.Stale, StalePlan{Plan: plan, Why: why})
			}
		}
	}
	return report.Why != ""
}

// backoffReason returns why nothing is proposed for a purpose at the moment; it is empty if
// something may be.
func (p *Planner) backoffReason(goal v1.MovePlanGoal, task *v1.TaskReference) string {
	for _, plan := range p.proposals {
		if plan.Spec.Goal == goal && sameTask(plan.Spec.For, task) {
			return waitsForApproval(plan)
		}
	}
	until := p.Ledger.NotBefore(&p.Options, goal, task)
	if !p.Now.Before(until) {
		return ""
	}
	return "the last plan for it was aborted; the next attempt is at " + until.UTC().Format(time.RFC3339)
}

// yieldReason returns why a plan is not proposed while others wait for approval; it is
// empty if it may be. Only plans that need no approval, and plans for a waiting task while
// the others have another goal, are worth the attention of those who approve.
func (p *Planner) yieldReason(plan *v1.MovePlan) string {
	if plan.Spec.Goal == v1.GoalUnhealthyGPUs {
		return ""
	}
	for _, other := range p.proposals {
		if !plan.Spec.Approved && (plan.Spec.Goal != v1.GoalPendingTask || other.Spec.Goal == v1.GoalPendingTask) {
			return waitsForApproval(other)
		}
	}
	return ""
}

func waitsForApproval(plan *v1.MovePlan) string {
	return fmt.Sprintf("MovePlan %s waits for approval", plan.Name)
}

// finish sets the fields that follow from the moves.
func (p *Planner) finish(plan *v1.MovePlan) *v1.MovePlan {
	spec := &plan.Spec
	for i := range spec.Moves {
		spec.CostGPUSeconds += spec.Moves[i].CostGPUSeconds
	}
	spec.Approved = spec.CostGPUSeconds <= p.Options.ApproveCost && (p.Options.ApproveForOthers || !isForOthers(spec))
	return plan
}

// isForOthers reports whether a plan moves Pods of one namespace for a task of another.
func isForOthers(spec *v1.MovePlanSpec) bool {
	return spec.For != nil && slices.ContainsFunc(spec.Moves, func(move v1.Move) bool { return move.Task.Namespace != spec.For.Namespace })
}

// costText describes what moves cost.
func costText(moves []v1.Move) string {
	lost := int64(0)
	for i := range moves {
		lost += moves[i].LostGPUSeconds
	}
	pods, move := plural.Count(len(moves), "Pod"), plural.Verb(len(moves), "moves", "move")
	return fmt.Sprintf("%s %s, losing %s of work", pods, move, plural.Count(int(minutes(lost)), "GPU-minute"))
}
