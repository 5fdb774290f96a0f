// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

func (b *builder) addTasks() {
	for i := range b.view.Tasks {
		task := &b.view.Tasks[i]
		b.set.put(Tasks, task.Namespace+"/"+task.Name, TaskRow(task))
	}
}

// TaskRow returns the row of a task.
func TaskRow(task *clusterview.Task) *Task {
	status := &task.Status
	row := &Task{
		Namespace: task.Namespace, Name: task.Name, UID: string(task.UID), Version: versionOf(task), Phase: string(status.Phase), Message: status.Message,
		GPU: task.Spec.GPU, Asks: show.Amount(task.GPUTask), Profile: task.Spec.GPUProfile, PodsNow: show.Pods(task.GPUTask), Restarts: int(status.Restarts),
		Moves: int(status.Moves), Priority: task.Spec.Priority, Queue: task.Spec.Queue, Created: task.CreationTimestamp, Started: startOf(status),
		Finished: status.CompletionTime, Nodes: status.Nodes,
	}
	if len(task.Pods) > 0 && row.Queue == "" {
		row.Queue = task.Pods[0].Labels[v1.LabelQueue]
	}
	return row
}

// startOf returns when a task has begun to run, as far as it has: status.startTime is when its deadline began to count.
func startOf(status *v1.GPUTaskStatus) *metav1.Time {
	switch status.Phase {
	case v1.PhaseRunning, v1.PhaseSucceeded, v1.PhaseFailed:
		return cmp.Or(status.RunningSince, status.StartTime)
	default:
		return nil
	}
}

// versionOf changes whenever a task or one of its Pods has changed. It does not tell which versions these are.
func versionOf(task *clusterview.Task) string {
	sum := hashOf(string(task.UID) + task.ResourceVersion)
	for _, pod := range task.Pods {
		sum += hashOf(string(pod.UID) + pod.ResourceVersion) // in any order of the Pods
	}
	return strconv.FormatUint(sum, 36)
}

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}

func (b *builder) addWaiting() {
	entries := slices.Clone(b.line.Waiting)
	slices.SortStableFunc(entries, analysis.CompareTurns)
	for turn := range entries {
		entry := &entries[turn]
		row := entryRow(entry)
		row.Turn = turn
		if row.Help == "" && !entry.Refused && b.help != nil {
			row.Help = b.help(entry)
		}
		if plan := b.proposedFor(entry); plan != nil {
			row.Help = strings.TrimSuffix(fmt.Sprintf("approve plan %s, which moves %s for it; or %s", plan.Name, plural.Count(len(plan.Spec.Moves), "running Pod"), row.Help), "; or ")
		}
		b.set.put(Waiting, entry.Kind+" "+entry.Namespace+"/"+entry.Name, row)
	}
}

// proposedFor returns the plan that makes room for a task as soon as somebody approves it; nil for none.
func (b *builder) proposedFor(entry *analysis.LineEntry) *v1.MovePlan {
	for _, plan := range b.view.Plans {
		task := plan.Spec.For
		if plan.Status.Phase == v1.PlanProposed && task != nil && entry.Kind == analysis.KindTask && task.Namespace == entry.Namespace && task.Name == entry.Name {
			return plan
		}
	}
	return nil
}

func entryRow(entry *analysis.LineEntry) *Entry {
	row := &Entry{LineEntry: *entry}
	if reason := entry.WaitingReason; reason != nil {
		row.LineEntry.Reason, row.Help = waitingreason.Cause(reason), waitingreason.Help(reason)
	}
	row.Never = entry.Verdict.Kind == v1.TaskNeverFits
	if row.Reason = show.EntryReason(&row.LineEntry); row.Reason == "" {
		row.Reason = "the scheduler has not said anything about it yet"
	}
	if estimate := entry.EstimatedStart; estimate != nil {
		row.EstimatedStart = &Estimate{StartEstimate: estimate, Message: show.Waits(estimate)}
	}
	return row
}

func (b *builder) addQueues() {
	if b.queues == nil || b.queues.Tree == nil {
		return
	}
	waiting, running := countByQueue(b.line.Waiting), countByQueue(b.line.Running)
	for order, name := range b.queues.InTreeOrder() {
		report := b.queues.Report(name, b.line)
		if report == nil {
			continue
		}
		row := &Queue{
			Name: name, Order: order, Depth: len(report.Ancestors), Resources: report.Resources, Share: report.Share, Waiting: waiting[name], Running: running[name],
			Problem: report.Problem,
		}
		if len(report.Ancestors) > 0 {
			row.Parent = report.Ancestors[0].Name
		}
		if factor, known := b.queues.Factors[name]; known {
			row.Factor = &factor
		}
		b.set.put(Queues, name, row)
	}
}

func countByQueue(entries []analysis.LineEntry) map[string]int {
	counts := map[string]int{}
	for i := range entries {
		counts[entries[i].Queue]++
	}
	return counts
}

func (b *builder) addPlans() {
	for _, plan := range b.view.Plans {
		b.set.put(Plans, plan.Name, b.planRow(plan))
	}
}

func (b *builder) planRow(plan *v1.MovePlan) *Plan {
	row := &Plan{
		Name: plan.Name, UID: string(plan.UID), Phase: string(plan.Status.Phase), Goal: string(plan.Spec.Goal), Reason: plan.Spec.Reason, Message: plan.Status.Message,
		Approved: plan.Spec.Approved, Aborted: plan.Spec.Abort, CostGPUSeconds: plan.Spec.CostGPUSeconds, Gain: show.Gain(&plan.Spec.Gain),
		Moves: MoveRows(b.view, plan.Spec.Moves, plan.Status.Moves), Created: plan.CreationTimestamp, Finished: plan.Status.CompletionTime,
	}
	for i := range plan.Spec.Moves {
		row.LostGPUSeconds += plan.Spec.Moves[i].LostGPUSeconds
	}
	if now, known := reschedule.CurrentCost(plan, b.view.Member, b.view.Now); known && moveplan.MayBeApproved(plan) {
		row.CostNow = rounded(now.GPUSeconds)
	}
	if plan.Status.Gain != nil {
		row.RealGain = show.Gain(plan.Status.Gain)
	}
	if task := plan.Spec.For; task != nil {
		row.For = task.Namespace + "/" + task.Name
	}
	for i := range plan.Spec.Places {
		place := &plan.Spec.Places[i]
		row.Places = append(row.Places, placeOf(b.view, place.Pod, &place.MovePlace))
	}
	return row
}

// rounded returns the first two digits of a number: a row is sent again only when something worth reading has changed.
func rounded(number int64) int64 {
	unit := int64(1)
	for number/unit >= 100 {
		unit *= 10
	}
	return number / unit * unit
}

// MoveRows returns moves, with how far each is if that is known.
func MoveRows(view *analysis.View, moves []v1.Move, states []v1.MoveStatus) []Move {
	list := make([]Move, len(moves))
	for i := range moves {
		move := &moves[i]
		list[i] = Move{
			Task: move.Task.Namespace + "/" + move.Task.Name, Pod: move.Pod, GPUs: move.GPUs, From: placeOf(view, move.Pod, &move.From), To: placeOf(view, move.Pod, &move.To),
			CostGPUSeconds: move.CostGPUSeconds, Reason: move.Reason,
		}
		if i < len(states) {
			list[i].State = string(states[i].State)
		}
	}
	return list
}

func placeOf(view *analysis.View, pod string, place *v1.MovePlace) analysis.Place {
	cards := view.Cards[place.Node]
	return analysis.Place{Pod: pod, Node: place.Node, GPUs: cards.Numbers(cards.Listed(place.GPUs))}
}

// ExplanationOf returns an explanation.
func ExplanationOf(view *analysis.View, e *analysis.Explanation, now time.Time) *Explanation {
	row := &Explanation{Headline: show.ExplanationHeadline(e, now), Lines: show.ExplanationPairs(e, now), Places: e.Uses, Placed: len(e.Uses) > 0}
	if e.Outlook == nil {
		return row
	}
	row.Remedies = e.Outlook.Remedies
	if view != nil {
		row.Moves = MoveRows(view, e.Outlook.Moves, nil)
	}
	if len(e.Outlook.Places) > 0 {
		row.Places, row.Placed = e.Outlook.Places, false
	}
	return row
}

// WhatIfRow returns the answer for a hypothetical task.
func WhatIfRow(view *analysis.View, answer *analysis.WhatIf) WhatIfAnswer {
	return WhatIfAnswer{
		Namespace: answer.Namespace, Name: answer.Name, Verdict: answer.Verdict,
		Explanation: Explanation{
			Headline: show.WhatIfHeadline(answer), Lines: show.WhatIfPairs(answer, view.Now), Remedies: answer.Remedies,
			Places: answer.Places, Moves: MoveRows(view, answer.Moves, nil),
		},
	}
}

// GPURow returns all about one GPU; nil if there is none.
func GPURow(view *analysis.View, name string, index int) *GPUDetails {
	node := view.Node(name)
	if node == nil {
		return nil
	}
	cards := view.NodeCards(name)
	if index < 0 || index >= len(cards) {
		return nil
	}
	row := &GPUDetails{Node: name, Index: index, Model: view.Model(name), Health: "healthy", Use: cards[index].Use, Holders: []GPUHolder{}}
	listed := view.GPUsOf(node)[index]
	if listed != nil {
		row.UUID, row.Model, row.Memory = listed.UUID, listed.Model, fmt.Sprintf("%d GiB", listed.MemoryMiB/1024)
	}
	if cards[index].Use == analysis.CardUnhealthy {
		row.Health = FaultText(listed)
	}
	row.Slices = gpuSlices(&cards[index], listed)
	holders := view.Holders()[name]
	for i := range holders {
		row.addHolder(view, &holders[i])
	}
	return row
}

// gpuSlices returns the slices of a GPU; nil if it is not divided.
func gpuSlices(card *analysis.Card, listed *inventory.GPU) []GPUSlice {
	var list []GPUSlice
	for i := range card.Slices {
		row := GPUSlice{Slice: card.Slices[i]}
		if listed != nil && i < len(listed.Slices) {
			row.UUID, row.Memory = listed.Slices[i].UUID, fmt.Sprintf("%d GiB", listed.Slices[i].MemoryMiB/1024)
		}
		list = append(list, row)
	}
	return list
}

// addHolder adds a holder of the node if it has the GPU, or slices of it.
func (d *GPUDetails) addHolder(view *analysis.View, holder *analysis.Holder) {
	held := map[string]int64{}
	for _, one := range holder.Slices {
		if one.GPU == d.Index && one.Slice < len(d.Slices) {
			slice := &d.Slices[one.Slice]
			slice.Pod = holder.Pod.Namespace + "/" + holder.Pod.Name
			held[slice.Profile]++
		}
	}
	if len(held) == 0 && !slices.Contains(holder.GPUs, d.Index) {
		return
	}
	row := gpuHolder(view, holder)
	row.Slices = show.Slices(held)
	d.Holders = append(d.Holders, row)
}

func gpuHolder(view *analysis.View, holder *analysis.Holder) GPUHolder {
	row := GPUHolder{Namespace: holder.Pod.Namespace, Pod: holder.Pod.Name, Since: holder.Since, Percent: holder.Percent}
	cost, ours := view.MoveCost(holder)
	if !ours {
		row.Purpose, row.Moving = ownerText(holder), "It is not part of a GPUTask, so it is never moved."
		return row
	}
	row.Task, row.Purpose = holder.Task.Name, show.Request(holder.Task.GPUTask)
	together := ""
	if cost.Pods > 1 {
		together = fmt.Sprintf(" and the %s with it", plural.Verb(cost.Pods-1, "Pod that moves", fmt.Sprintf("%d Pods that move", cost.Pods-1)))
	}
	lost := show.GPUTime(cost.LostGPUSeconds) + " of GPU time"
	if cost.Immovable != "" {
		row.Moving = fmt.Sprintf("It can't be moved now: %s. A move would repeat %s.", cost.Immovable, lost)
		return row
	}
	row.Moving = fmt.Sprintf("Moving it%s would repeat %s.", together, lost)
	return row
}

// ownerText says what a Pod of another controller belongs to.
func ownerText(holder *analysis.Holder) string {
	if owner := metav1.GetControllerOf(holder.Pod); owner != nil {
		return "a Pod of " + owner.Kind + " " + owner.Name
	}
	return "a Pod without a controller"
}
