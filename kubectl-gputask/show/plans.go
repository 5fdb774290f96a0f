// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
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
			gpuTime(plan.Spec.CostGPUSeconds), gain(&plan.Spec.Gain), p.Age(plan.CreationTimestamp.Time),
		}
		if wide {
			row = append(row, oneLine(plan.Spec.Reason), oneLine(plan.Status.Message))
		} else {
			row = append(row, truncate(oneLine(plan.Status.Message), messageLength))
		}
		t.add(row...)
	}
	t.write(p)
}

// Plan writes all details of a MovePlan. One without a name does not exist in the
// cluster: it is a preview.
func Plan(p *Page, plan *v1.MovePlan) {
	var f pairs
	f.addIf("Plan", plan.Name)
	if plan.Name != "" {
		phase := planPhase(plan)
		f.add("Phase", p.Paint(phase.Style, phase.Text)+phaseSince(p, plan))
	}
	f.addIf("Message", oneLine(plan.Status.Message))
	f.add("Goal", goalText(plan))
	f.addIf("Reason", oneLine(plan.Spec.Reason))
	f.add("Cost", gpuTime(plan.Spec.CostGPUSeconds)+" of GPU time, weighted; "+lost(plan)+" of work is repeated")
	f.add("Gain", gainText(&plan.Spec.Gain))
	if plan.Status.Gain != nil {
		f.add("Real gain", gainText(plan.Status.Gain))
	}
	f.add("Approved", approvalText(plan))
	f.write(p)
	p.Title(plural.Count(len(plan.Spec.Moves), "move"))
	moves(p, plan)
	if len(plan.Spec.Places) > 0 {
		p.Title(reservedTitle(plan))
		t := newTable("POD", "NODE", "GPUS")
		t.indent = "  "
		for i := range plan.Spec.Places {
			place := &plan.Spec.Places[i]
			t.add(place.Pod, place.Node, cardCount(place.GPUs))
		}
		t.write(p)
	}
	nextSteps(p, plan)
}

// reservedTitle returns the title of the reserved places. A plan that has ended reserves
// nothing any more.
func reservedTitle(plan *v1.MovePlan) string {
	if final(plan) {
		return "Was kept for " + forTask(plan)
	}
	return "Kept for " + forTask(plan)
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
			fmt.Sprint(move.Turn + 1), move.Task.Namespace + "/" + move.Pod, orNone(move.GPUs),
			placeText(&move.From), placeText(&move.To), gpuTime(move.CostGPUSeconds),
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
		p.Printf("\nNothing was created or moved. The controller proposes such plans by itself with --reschedule-period.\n")
	case plan.Spec.Abort || final(plan):
	case !plan.Spec.Approved:
		p.Printf("\nApprove it:  kubectl gputask plan approve %[1]s\nDismiss it:  kubectl gputask plan abort %[1]s\n", plan.Name)
	default:
		p.Printf("\nStop it:  kubectl gputask plan abort %s\n", plan.Name)
	}
}

func final(plan *v1.MovePlan) bool {
	return plan.Status.Phase == v1.PlanDone || plan.Status.Phase == v1.PlanAborted
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
		return "a new place for everything, wherever the scheduler puts it"
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

func placeText(place *v1.MovePlace) string {
	if place.Node == "" {
		return "anywhere"
	}
	return place.Node
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

func gainText(g *v1.MoveGain) string {
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

func lost(plan *v1.MovePlan) string {
	sum := int64(0)
	for i := range plan.Spec.Moves {
		sum += plan.Spec.Moves[i].LostGPUSeconds
	}
	return gpuTime(sum)
}

// gpuTime formats a number of GPU-seconds.
func gpuTime(seconds int64) string { return span(time.Duration(seconds) * time.Second) }

// approvalText returns whether a plan is approved, and for a preview how it would be.
func approvalText(plan *v1.MovePlan) string {
	switch {
	case plan.Name == "" && plan.Spec.Approved:
		return "would be by itself: the cost is within the limit"
	case plan.Name == "":
		return "would have to be by a person: the cost is above the limit"
	case plan.Spec.Approved:
		return "yes"
	default:
		return "no"
	}
}
