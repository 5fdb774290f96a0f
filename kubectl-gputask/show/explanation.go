// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// Explanation writes why a task is in its current state, on one screen.
func Explanation(p *Page, e *analysis.Explanation) {
	task := e.Task
	p.Printf("%s %s%s\n\n", p.Paint(Bold, task.Namespace+"/"+task.Name), stateText(p, e), headline(p, e))
	f := explanationPairs(p, e)
	f.write(p)
	if e.Outlook != nil {
		outlook(p, e.Outlook)
	}
	warnings(p, e.Warnings)
	problems(p, e.Problems)
}

// explanationPairs returns what is known about the state of a task.
func explanationPairs(p *Page, e *analysis.Explanation) *pairs {
	task, f := e.Task, &pairs{}
	f.add("Asks for", Request(task))
	if e.Outlook != nil || task.Spec.Priority != "" {
		f.add("Priority", fmt.Sprintf("%s (%d)", cmp.Or(task.Spec.Priority, "default"), e.Priority))
	}
	addCauses(p, f, e)
	addTurn(p, f, e)
	if e.Outlook != nil && e.Outlook.Free != nil {
		f.add("Free", freeText(e.Outlook.Free))
	}
	if task.Status.Phase == v1.PhaseRunning && e.Judged {
		may := "yes"
		if e.Immovable != "" {
			may = "no: " + e.Immovable
		}
		f.add("May be moved", may)
	}
	for _, plan := range e.Plans {
		f.add("Plan", planText(p, &plan))
	}
	return f
}

// addCauses adds what the task waits for, with what helps, and where it runs.
func addCauses(p *Page, f *pairs, e *analysis.Explanation) {
	for _, cause := range e.WaitsFor {
		if e.Verdict.Cause == "" || !strings.Contains(cause, e.Verdict.Cause) { // which the headline says
			f.add("Waits for", p.message(cause))
		}
	}
	for _, command := range e.Verdict.Commands {
		f.add("Try", command)
	}
	for _, line := range usesText(e.Uses) {
		f.add("Runs on", line)
	}
	if e.Outlook == nil && len(e.WaitsFor) == 0 && e.Verdict.Kind != v1.TaskBlocked && (len(e.Uses) == 0 || saysMore(e.Task)) {
		f.addIf("Message", p.message(e.Task.Status.Message))
	}
}

// saysMore reports whether the message of a task with Pods on nodes says more than where they are.
func saysMore(task *v1.GPUTask) bool {
	return task.Status.Phase != v1.PhaseRunning || strings.Contains(task.Status.Message, "; ")
}

// addTurn adds why the task does not run any more, its queue and its position there, and when it is expected to start.
func addTurn(p *Page, f *pairs, e *analysis.Explanation) {
	if last := e.Task.Status.LastInterruption; last != nil && last.EndTime == nil {
		f.add("Interrupted", interruptionText(p, e.Task))
	}
	f.addIf("Queue", inQueueText(e.InQueue))
	if e.Position > 0 {
		f.add("Position", position(e))
	}
	if e.EstimatedStart != nil {
		f.add("Expected", p.expectation(e.EstimatedStart))
	}
}

// stateText returns a task's phase and for how long it has been in it.
func stateText(p *Page, e *analysis.Explanation) string {
	phase, age := Phase(e.Task.Status.Phase), p.Age(e.Since.Time)
	word := p.Paint(phase.Style, strings.ToLower(phase.Text))
	if gputask.IsFinished(e.Task) {
		return word + " " + age + " ago"
	}
	return "has been " + word + " for " + age
}

// headline returns the explanation in one sentence.
func headline(p *Page, e *analysis.Explanation) string {
	switch e.Verdict.Kind {
	case v1.TaskBlocked, v1.TaskNeverFits:
		if gputask.SuspensionRequested(e.Task) {
			return ""
		}
		return ": " + p.message(e.Verdict.Cause)
	default:
	}
	for _, plan := range e.Plans {
		if plan.Phase == v1.PlanExecuting {
			return ": MovePlan " + plan.Name + " makes room for it"
		}
	}
	switch {
	case e.Outlook == nil:
		return ""
	case e.WaitingReason == nil && e.Outlook.Kind() != v1.TaskQueued && e.Outlook.Kind() != v1.TaskStarting:
		return ": no scheduler has tried it yet, and " + verdictText(p, e.Outlook)
	case e.Outlook.Verdict == analysis.Sometime && e.EstimatedStart != nil:
		return ": it waits its turn"
	default:
		return ": " + verdictText(p, e.Outlook)
	}
}

// verdictText describes a verdict.
func verdictText(p *Page, o *analysis.Outlook) string {
	switch o.Verdict {
	case analysis.QueueRefuses:
		return "it may not use its queue: " + o.Problem
	case analysis.QueueLimit:
		return "its queue is at a limit: " + o.Problem
	case analysis.Now:
		return "there is room for it now"
	case analysis.AfterPreemption:
		return "it fits when " + victimsText(o)
	case analysis.AfterMoves:
		return "it fits after " + plural.Count(len(o.Moves), "move")
	case analysis.WhenOthersEnd:
		return "it fits when " + abbreviate(o.Ends, 3) + " " + plural.Verb(len(o.Ends), "has ended", "have ended") + ", at the latest at " + p.timeOfDay(o.At.Time) + p.zone(o.At.Time)
	case analysis.Sometime:
		return "it waits for other tasks to finish; no end time is known"
	case analysis.NodesClosed:
		return "it only fits on nodes that are cordoned or not ready"
	case analysis.Never:
		return "it does not fit on the nodes of this cluster, even if they were empty"
	default:
		return o.Problem
	}
}

// victimsText says which tasks are preempted for another one: "2 tasks of lower priority are preempted".
func victimsText(o *analysis.Outlook) string {
	preempted, reclaimed := len(o.Victims)-len(o.Reclaimed), len(o.Reclaimed)
	switch {
	case reclaimed == 0:
		return plural.Count(preempted, "task") + " of lower priority " + plural.Verb(preempted, "is", "are") + " preempted"
	case preempted == 0:
		return plural.Count(reclaimed, "task") + " on GPUs that other queues have borrowed " + plural.Verb(reclaimed, "is", "are") + " preempted"
	default:
		return fmt.Sprintf("%d tasks are preempted (%d of lower priority, %d on GPUs that other queues have borrowed)", len(o.Victims), preempted, reclaimed)
	}
}

// shownUses limits how many Pods' places are shown.
const shownUses = 4

func usesText(uses []analysis.Place) []string {
	var lines []string
	for i, use := range uses {
		if i == shownUses {
			return append(lines, fmt.Sprintf("and %d more Pods", len(uses)-shownUses))
		}
		lines = append(lines, placeLine(&use))
	}
	return lines
}

// placeLine returns text such as "h100-0: GPU 3 (Pod train-0)".
func placeLine(place *analysis.Place) string {
	line := place.Node
	if len(place.GPUs) > 0 {
		line += ": GPU " + numbers(place.GPUs)
	}
	if len(place.Slices) > 0 {
		line += ": " + Slices(place.Slices)
	}
	return line + " (Pod " + place.Pod + ")"
}

// Slices returns "1 MIG slice of profile 2g.20gb and 2 MIG slices of profile 1g.10gb"; empty for none.
func Slices(byProfile map[string]int64) string {
	var parts []string
	for _, profile := range slices.Sorted(maps.Keys(byProfile)) {
		parts = append(parts, slicesText(int(byProfile[profile]), profile))
	}
	return strings.Join(parts, " and ")
}

// slicesText returns "1 MIG slice of profile 1g.10gb" or "2 MIG slices of profile 1g.10gb".
func slicesText(count int, profile string) string {
	return plural.Count(count, "MIG slice") + " of profile " + profile
}

// numbers formats a list with its ranges shortened: "0-3,5".
func numbers(list []int) string {
	sorted := slices.Sorted(slices.Values(list))
	var parts []string
	for from := 0; from < len(sorted); {
		to := from
		for to+1 < len(sorted) && sorted[to+1] == sorted[to]+1 {
			to++
		}
		if to > from {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[from], sorted[to]))
		} else {
			parts = append(parts, fmt.Sprint(sorted[from]))
		}
		from = to + 1
	}
	return strings.Join(parts, ",")
}

func position(e *analysis.Explanation) string {
	text := fmt.Sprintf("%d of %s", e.Position, plural.Count(e.Queue, "waiting task"))
	if e.InQueue != nil {
		text += " in queue " + e.InQueue.Name
	}
	if len(e.Ahead) > 0 {
		text += "; ahead of it: " + abbreviate(e.Ahead, 3)
	}
	return text
}

// inQueueText says what the queue of a task holds; empty for none.
func inQueueText(q *analysis.QueuePlace) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("%s, which holds %s GPUs", q.Name, q.Held)
	if q.Limit != "" {
		text += " of at most " + q.Limit
	}
	text += ", " + q.Guaranteed + " guaranteed"
	if q.Borrowed != "0" {
		text += ", " + q.Borrowed + " borrowed"
	}
	if q.Factor != nil {
		text += fmt.Sprintf("; it has used %.2f times its share", *q.Factor)
	}
	return text
}

func freeText(f *analysis.Free) string {
	if f.Nodes == 0 && f.Profile != "" {
		return "nothing: no eligible node has MIG slices of profile " + f.Profile
	}
	if f.Nodes == 0 {
		return "nothing: no node is eligible"
	}
	of := plural.Count(f.GPUs, "GPU")
	if f.Profile != "" {
		of = slicesText(f.GPUs, f.Profile)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %s", f.Whole, of+" on "+plural.Count(f.Nodes-f.Closed, "node"))
	if f.LargestBlock > 0 {
		fmt.Fprintf(&text, ", at most %d together (%s)", f.LargestBlock, f.BlockOn)
	}
	for _, rest := range []struct {
		count int
		name  string
	}{{f.Shared, "partly free"}, {f.Reserved, "reserved"}, {f.Unhealthy, "unhealthy"}} {
		if rest.count > 0 {
			fmt.Fprintf(&text, "; %d %s", rest.count, rest.name)
		}
	}
	if f.Closed > 0 {
		text.WriteString("; " + plural.Count(f.Closed, "node") + " cordoned, not ready or not offering GPUs")
	}
	return text.String()
}

func planText(p *Page, plan *analysis.PlanState) string {
	text := fmt.Sprintf("%s is %s", plan.Name, strings.ToLower(string(plan.Phase)))
	if plan.Message != "" {
		text += ": " + p.message(plan.Message)
	}
	if !plan.Approved && plan.Message == "" { // the message of a proposed one says it
		text += p.Paint(Bold, "  (kubectl gputask plan approve "+plan.Name+")")
	}
	return text
}

// outlook writes why Pods wait, and what would let them start.
func outlook(p *Page, o *analysis.Outlook) {
	if o.Verdict == analysis.AfterPreemption && o.Problem != "" {
		p.Title(whyTitle(o.Verdict))
		p.Printf("  %s\n", o.Problem)
	}
	if o.Nodes != "" {
		p.Title(whyTitle(o.Verdict))
		p.Printf("  %s\n", o.Nodes)
		for _, why := range o.Immovable {
			p.Printf("  can't be moved: %s\n", why)
		}
	}
	if len(o.Remedies) > 0 {
		p.Title("It would start")
		for i := range o.Remedies {
			p.Printf("  - %s\n", o.Remedies[i].Message)
		}
	}
	if preempted := preemptedOf(o); len(preempted) > 0 {
		p.Title("Would be preempted (lower priority)")
		p.Printf("  %s\n", abbreviate(preempted, 8))
	}
	if len(o.Reclaimed) > 0 {
		p.Title("Would be preempted (on borrowed GPUs)")
		p.Printf("  %s\n", abbreviate(o.Reclaimed, 8))
	}
	if len(o.Moves) > 0 {
		p.Title(fmt.Sprintf("%s would make room, at a cost of %s of GPU time", plural.Count(len(o.Moves), "move"), GPUTime(o.CostGPUSeconds)))
		moves(p, &v1.MovePlan{Spec: v1.MovePlanSpec{Moves: o.Moves}})
	}
	if o.At != nil {
		p.Title("Others end")
		p.Printf("  at %s at the latest, in %s: %s\n", p.minute(o.At.Time), span(o.At.Sub(p.Now)), abbreviate(o.Ends, 8))
	}
	if len(o.Places) > 0 {
		title := "Would go to"
		if o.Verdict == analysis.Now {
			title = "Goes to"
		}
		p.Title(title)
		for _, line := range usesText(o.Places) {
			p.Printf("  %s\n", line)
		}
	}
}

func whyTitle(verdict analysis.Verdict) string {
	if verdict == analysis.Never {
		return "Why never"
	}
	return "Why not now"
}

// preemptedOf returns the victims of a lower priority: those that are not on borrowed GPUs.
func preemptedOf(o *analysis.Outlook) []string {
	reclaimed := func(name string) bool { return slices.Contains(o.Reclaimed, name) }
	return slices.DeleteFunc(slices.Clone(o.Victims), reclaimed)
}

func problems(p *Page, list []string) {
	if len(list) == 0 {
		return
	}
	p.Printf("\n%s\n", p.Paint(Yellow, plural.Count(len(list), "thing")+" in the cluster could not be read and "+plural.Verb(len(list), "is not", "are not")+" counted:"))
	const shown = 3
	for i, problem := range list {
		if i == shown {
			p.Printf("  and %d more\n", len(list)-shown)
			return
		}
		p.Printf("  %s\n", problem)
	}
}

// WhatIf writes whether and when a hypothetical task would fit.
func WhatIf(p *Page, answer *analysis.WhatIf) {
	o := answer.Outlook
	style := Yellow
	switch o.Verdict {
	case analysis.Now:
		style = Green
	case analysis.Never, analysis.NodesClosed, analysis.Missing, analysis.Invalid, analysis.QueueRefuses:
		style = Red
	default:
	}
	p.Printf("%s: %s\n", p.Paint(Bold, answer.Namespace+"/"+answer.Name), p.Paint(style, whatIfText(p, o)))
	p.Printf("  asks for %s\n", Request(answer.Task))
	if len(answer.DependsOn) > 0 {
		p.Printf("  would wait for %s first\n", abbreviate(answer.DependsOn, 4))
	}
	if queue := inQueueText(answer.InQueue); queue != "" {
		p.Printf("  in queue %s\n", queue)
	}
	if answer.Ahead > 0 && o.Verdict != analysis.Invalid && o.Verdict != analysis.QueueRefuses {
		p.Printf("  %s would be served before it\n", plural.Count(answer.Ahead, "waiting task"))
	}
	if equal := answer.Equal; equal != nil {
		p.Printf("  %s is waiting for the same resources, and is expected to start %s\n", equal.Name, p.expectation(equal.EstimatedStart))
	}
	if o.Free != nil {
		p.Printf("  free: %s\n", freeText(o.Free))
	}
	for _, command := range answer.Commands {
		p.Printf("  try: %s\n", command)
	}
	if text := uncheckedText(answer); text != "" {
		p.Printf("  %s\n", text)
	}
	outlook(p, o)
}

// uncheckedText says which of the objects that a task names may be missing; empty if none.
func uncheckedText(answer *analysis.WhatIf) string {
	if len(answer.Unchecked) == 0 {
		return ""
	}
	return "not checked, as you may not read them: whether its " + plural.List(answer.Unchecked) + " exist"
}

// whatIfText describes a verdict on a hypothetical task.
func whatIfText(p *Page, o *analysis.Outlook) string {
	switch o.Verdict {
	case analysis.QueueLimit:
		return "waits, " + verdictText(p, o)
	case analysis.Now:
		return "fits now"
	case analysis.AfterPreemption:
		return "fits now, and " + victimsText(o) + " for it"
	case analysis.Sometime:
		return "fits when other tasks finish; no end time is known"
	case analysis.Invalid:
		return o.Problem
	default:
		return strings.TrimPrefix(verdictText(p, o), "it ")
	}
}
