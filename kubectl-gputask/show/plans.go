// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// Plans writes a table of MovePlans.
func Plans(p *Page, plans []v1.MovePlan, wide bool) {
	heading := []string{"NAME", "PHASE", "GOAL", "TASK", "MOVED", "COST", "GAIN", "AGE"}
	if wide {
		heading = append(heading, "REASON")
	}
	t := newTable(append(heading, "MESSAGE")...)
	for i := range plans {
		plan := &plans[i]
		row := []any{
			plan.Name, planPhase(plan), string(plan.Spec.Goal), forTask(plan), fmt.Sprintf("%d/%d", plan.Status.Moved, len(plan.Spec.Moves)),
			GPUTime(plan.Spec.CostGPUSeconds), gain(&plan.Spec.Gain), p.Age(plan.CreationTimestamp.Time),
		}
		if wide {
			row = append(row, p.message(plan.Spec.Reason), p.message(plan.Status.Message))
		} else {
			row = append(row, truncate(p.message(plan.Status.Message), messageLength))
		}
		t.add(row...)
	}
	t.write(p)
}

// Plan writes all details of a MovePlan, with what it would cost now, nil if that is not known. One without a name does
// not exist in the cluster: it is a preview.
func Plan(p *Page, plan *v1.MovePlan, now *reschedule.Cost) {
	var f pairs
	f.addIf("Plan", plan.Name)
	if plan.Name != "" {
		phase := planPhase(plan)
		f.add("Phase", p.Paint(phase.Style, phase.Text)+phaseSince(p, plan))
	}
	f.addIf("Message", p.message(plan.Status.Message))
	f.add("Goal", goalText(plan))
	f.addIf("Reason", p.message(plan.Spec.Reason))
	f.add("Cost", costText(plan, now))
	f.add("Gain", Gain(&plan.Spec.Gain))
	if plan.Status.Gain != nil {
		f.add("Real gain", Gain(plan.Status.Gain))
	}
	f.add("Approved", approvalText(plan))
	f.write(p)
	p.Title(plural.Count(len(plan.Spec.Moves), "move"))
	moves(p, plan)
	kept := "Kept for "
	if moveplan.Finished(plan) {
		kept = "Was kept for " // a plan that has ended reserves nothing any more
	}
	t := newTable("POD", "NODE", "GPUS")
	for i := range plan.Spec.Places {
		place := &plan.Spec.Places[i]
		t.add(place.Pod, place.Node, cardCount(place.GPUs))
	}
	t.sectionIfAny(p, kept+forTask(plan))
	nextSteps(p, plan)
}

func costText(plan *v1.MovePlan, now *reschedule.Cost) string {
	lost := int64(0)
	for i := range plan.Spec.Moves {
		lost += plan.Spec.Moves[i].LostGPUSeconds
	}
	text := GPUTime(plan.Spec.CostGPUSeconds) + " of GPU time"
	if changed := CostNow(plan, now); changed != "" {
		text, lost = changed, now.LostGPUSeconds
	}
	return text + ", weighted; " + GPUTime(lost) + " of work is repeated"
}

// CostNow says what a plan cost when it was proposed and what it costs now; empty if that is the same, or not known.
func CostNow(plan *v1.MovePlan, now *reschedule.Cost) string {
	if now == nil || GPUTime(now.GPUSeconds) == GPUTime(plan.Spec.CostGPUSeconds) {
		return ""
	}
	return fmt.Sprintf("%s of GPU time when proposed, %s now", GPUTime(plan.Spec.CostGPUSeconds), GPUTime(now.GPUSeconds))
}

// moves writes a table of the moves of a plan.
func moves(p *Page, plan *v1.MovePlan) {
	heading := []string{"TURN", "POD", "GPUS", "FROM", "TO", "COST"}
	started := len(plan.Status.Moves) == len(plan.Spec.Moves) && plan.Status.Phase != v1.PlanProposed
	if started {
		heading = append(heading, "STATE", "NOW ON")
	}
	reasons := slices.ContainsFunc(plan.Spec.Moves, func(move v1.Move) bool { return move.Reason != "" })
	if reasons {
		heading = append(heading, "WHY")
	}
	t := newTable(heading...)
	t.indent = "  "
	for i := range plan.Spec.Moves {
		move := &plan.Spec.Moves[i]
		row := []any{
			move.Turn + 1, move.Task.Namespace + "/" + move.Pod, orNone(move.GPUs),
			cmp.Or(move.From.Node, "anywhere"), cmp.Or(move.To.Node, "anywhere"), GPUTime(move.CostGPUSeconds),
		}
		if started {
			status := &plan.Status.Moves[i]
			row = append(row, moveState(status.State), orNone(status.Node))
		}
		if reasons {
			row = append(row, oneLine(move.Reason))
		}
		t.add(row...)
	}
	t.write(p)
}

// nextSteps writes the commands that apply to the plan now.
func nextSteps(p *Page, plan *v1.MovePlan) {
	switch {
	case plan.Name == "":
		p.Printf("\nNothing was created or moved. The controller proposes such plans if --reschedule-period is set.\n")
	case plan.Spec.Abort || moveplan.Finished(plan):
	case !plan.Spec.Approved:
		p.Printf("\nApprove it:  kubectl gputask plan approve %[1]s\nDismiss it:  kubectl gputask plan abort %[1]s\n", plan.Name)
	default:
		p.Printf("\nStop it:  kubectl gputask plan abort %s\n", plan.Name)
	}
}

func planPhase(plan *v1.MovePlan) Cell {
	styles := map[v1.MovePlanPhase]Style{
		v1.PlanProposed: Yellow, v1.PlanApproved: Blue, v1.PlanExecuting: Green, v1.PlanDone: Faint, v1.PlanAborted: Red,
	}
	if plan.Status.Phase == "" {
		return Cell{Text: "New"}
	}
	return Cell{Text: string(plan.Status.Phase), Style: styles[plan.Status.Phase]}
}

func phaseSince(p *Page, plan *v1.MovePlan) string {
	since := &plan.CreationTimestamp
	for _, later := range []*metav1.Time{plan.Status.StartTime, plan.Status.CompletionTime} {
		if later != nil {
			since = later
		}
	}
	if since.IsZero() {
		return ""
	}
	return " for " + p.Age(since.Time)
}

func moveState(state v1.MoveState) Cell {
	styles := map[v1.MoveState]Style{
		v1.MoveEvicted: Yellow, v1.MoveMoved: Green, v1.MoveElsewhere: Red, v1.MoveSkipped: Faint,
	}
	return Cell{Text: string(state), Style: styles[state]}
}

func goalText(plan *v1.MovePlan) string {
	switch plan.Spec.Goal {
	case v1.GoalUnhealthyGPUs:
		return "healthy GPUs for a task"
	case v1.GoalPendingTask:
		return "room for " + forTask(plan)
	case v1.GoalCapacity:
		return "whole GPUs, nodes and domains"
	case v1.GoalRecreate:
		return "new places for all tasks, chosen by the scheduler"
	default:
		return string(plan.Spec.Goal)
	}
}

func forTask(plan *v1.MovePlan) string {
	if plan.Spec.For == nil {
		return "<none>"
	}
	return plan.Spec.For.Namespace + "/" + plan.Spec.For.Name
}

// cardCount returns the number of cards: their UUIDs mean nothing to users.
func cardCount(uuids []string) string {
	if len(uuids) == 0 {
		return "any"
	}
	return fmt.Sprint(len(uuids))
}

// gain returns the main gain of a plan: GPUs, otherwise nodes or domains.
func gain(g *v1.MoveGain) string {
	switch {
	case g.GPUs > 0:
		return plural.Count(int(g.GPUs), "GPU")
	case len(g.Nodes) > 0:
		return plural.Count(len(g.Nodes), "node")
	case len(g.Domains) > 0:
		return plural.Count(len(g.Domains), "domain")
	default:
		return "none"
	}
}

// Gain returns what a plan brings: "3 GPUs, 1 whole node (a100-1)".
func Gain(g *v1.MoveGain) string {
	var parts []string
	if g.GPUs > 0 {
		parts = append(parts, plural.Count(int(g.GPUs), "GPU"))
	}
	if len(g.Nodes) > 0 {
		parts = append(parts, plural.Count(len(g.Nodes), "whole node")+" ("+abbreviate(g.Nodes, 3)+")")
	}
	if len(g.Domains) > 0 {
		parts = append(parts, plural.Count(len(g.Domains), "whole domain")+" ("+abbreviate(g.Domains, 3)+")")
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// GPUTime formats a number of GPU-seconds.
func GPUTime(seconds int64) string { return span(time.Duration(seconds) * time.Second) }

// approvalText returns whether a plan is approved, and for a preview how it would be.
func approvalText(plan *v1.MovePlan) string {
	switch {
	case plan.Name == "" && plan.Spec.Approved:
		return "would be approved automatically: the cost is within the limit"
	case plan.Name == "":
		return "would need approval by a person: the cost is above the limit"
	case plan.Spec.Approved:
		return "yes"
	default:
		return "no"
	}
}

// Preview writes the plan that would be proposed, or why there is none.
func Preview(p *Page, plan *v1.MovePlan, report *reschedule.Report) {
	if plan == nil {
		p.Printf("Nothing would be moved: %s\n", cmp.Or(report.Why, "there is nothing to gain"))
	} else {
		Plan(p, plan, nil)
	}
	t := newTable("TASK", "ACTION")
	for _, verdict := range report.Waiting {
		t.add(verdict.Task.Namespace+"/"+verdict.Task.Name, oneLine(verdict.Message))
	}
	t.sectionIfAny(p, "Waiting tasks")
	for _, stale := range report.Stale {
		p.Printf("\nMovePlan %s no longer applies: %s\n", stale.Plan.Name, stale.Why)
	}
	list := make([]string, 0, len(report.Problems))
	for _, problem := range report.Problems {
		list = append(list, problem.Error())
	}
	problems(p, list)
}

// PlanLine returns the progress of a plan in one line.
func PlanLine(p *Page, plan *v1.MovePlan) string {
	phase := planPhase(plan)
	line := p.Paint(phase.Style, phase.Text) + spaces(len("Executing")-len(phase.Text))
	line += fmt.Sprintf("  %d/%d moved", plan.Status.Moved, len(plan.Spec.Moves))
	if plan.Status.Message != "" {
		line += "  " + p.message(plan.Status.Message)
	}
	return line
}
