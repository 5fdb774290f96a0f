// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Verdict is when waiting Pods can be scheduled.
type Verdict string

// The verdicts; the first that applies counts.
const (
	// QueueRefuses: the Pods may not use their GPUQueue.
	QueueRefuses Verdict = "QueueRefuses"
	// QueueLimit: their GPUQueue would exceed a limit.
	QueueLimit Verdict = "QueueLimit"
	// Now: there is room.
	Now Verdict = "Now"
	// AfterPreemption: after gpu-scheduler has preempted Pods of a lower priority.
	AfterPreemption Verdict = "AfterPreemption"
	// AfterMoves: after running Pods have been moved.
	AfterMoves Verdict = "AfterMoves"
	// WhenOthersEnd: at the latest when tasks with a deadline have ended.
	WhenOthersEnd Verdict = "WhenOthersEnd"
	// Sometime: when other tasks end, at an unknown time.
	Sometime Verdict = "Sometime"
	// NodesClosed: only nodes that are cordoned or not ready could take them.
	NodesClosed Verdict = "NodesClosed"
	// Missing: objects that they name do not exist.
	Missing Verdict = "Missing"
	// Never: not even if nothing ran.
	Never Verdict = "Never"
	// Invalid: there is no verdict, because the request is invalid.
	Invalid Verdict = "Invalid"
)

// Outlook is when and where waiting Pods can be scheduled.
type Outlook struct {
	Verdict Verdict `json:"verdict"`
	// Problem is what is wrong with the request, what is missing, or why its queue does not let it start; only for
	// Invalid, Missing, QueueRefuses, QueueLimit, and AfterPreemption if others have to give back GPUs because of a
	// limit.
	Problem string `json:"problem,omitempty"`
	// Places are where the Pods go according to the verdict.
	Places []Place `json:"places,omitempty"`
	// Victims are the tasks, and Pods without a task, that would be preempted.
	Victims []string `json:"victims,omitempty"`
	// Reclaimed are those of the Victims that would be preempted because their queues have borrowed their GPUs.
	Reclaimed []string `json:"reclaimed,omitempty"`
	// Moves are the moves that would make room, whatever the verdict is, and
	// CostGPUSeconds is their cost.
	Moves          []v1.Move `json:"moves,omitempty"`
	CostGPUSeconds int64     `json:"costGPUSeconds,omitempty"`
	// Immovable is why some tasks can't be moved, if no moves help.
	Immovable []string `json:"immovable,omitempty"`
	// At is the time by which the tasks in Ends will have ended.
	At   *metav1.Time `json:"at,omitempty"`
	Ends []string     `json:"ends,omitempty"`
	// Nodes counts the reasons why nodes are infeasible; each of the Remedies alone would
	// let the Pods be scheduled.
	Nodes    string             `json:"nodes,omitempty"`
	Remedies []v1.WaitingRemedy `json:"remedies,omitempty"`
	// Free counts the GPUs of the nodes that the Pods may run on.
	Free *Free `json:"free,omitempty"`
}

// Outlook returns when and where waiting Pods can be scheduled.
func (v *View) Outlook(w *clusterview.Waiting) *Outlook {
	if w.Err != nil {
		return &Outlook{Verdict: Invalid, Problem: w.Err.Error()}
	}
	o := &Outlook{}
	w = v.admit(o, w)
	if o.Verdict == QueueRefuses {
		return o
	}
	var err error
	v.withReservations(w, func() {
		if o.Verdict == QueueLimit {
			err = v.preemptWithinLimits(o, w)
		} else if err = v.judge(o, w); err == nil && o.Verdict != Now && !o.isHopeless() {
			err = v.addMoves(o, w)
		}
	})
	if err != nil {
		return &Outlook{Verdict: Invalid, Problem: err.Error()}
	}
	return o
}

// isHopeless reports whether it does not matter what runs.
func (o *Outlook) isHopeless() bool { return o.Verdict == Never || o.Verdict == NodesClosed }

// judge sets the verdict, except for AfterMoves.
func (v *View) judge(o *Outlook, w *clusterview.Waiting) error {
	gang := w.Gang
	o.Free = v.free(gang)
	outlook, err := v.Cluster.WhatIf(&gang.Gang, v.ends())
	if err != nil {
		return err
	}
	o.Places = v.places(gang, outlook.Plan)
	switch outlook.Verdict {
	case placement.FitsNow:
		o.Verdict = Now
		return nil
	case placement.FitsOpened:
		o.Verdict = NodesClosed
	case placement.FitsNever:
		o.Verdict = Never
	case placement.FitsAfter:
		o.Verdict, o.Ends = WhenOthersEnd, v.owners(outlook.Pods)
		o.At = new(metav1.NewTime(v.Now.Add(outlook.After).Truncate(time.Second)))
	default:
		o.Verdict = Sometime
	}
	if err := v.explain(o, gang); err != nil || o.isHopeless() || !preemption.Preempts(w.Pods[0]) {
		return err
	}
	return v.preempt(o, w, v.reclaimFor(w))
}

func (v *View) explain(o *Outlook, gang *snapshot.Members[*corev1.Pod]) error {
	explanation, err := v.Cluster.Explain(&gang.Gang)
	if err != nil || explanation == nil {
		return err
	}
	o.Remedies = snapshot.Remedies(explanation)
	explanation.Never, explanation.Remedies = false, nil // they are reported separately
	o.Nodes = snapshot.PlainDomains(explanation.String())
	return nil
}

// preemptWithinLimits does so for a gang whose queue may not hold it now: others below the ancestor whose limit is in
// the way may have to give back GPUs.
func (v *View) preemptWithinLimits(o *Outlook, w *clusterview.Waiting) error {
	taken := v.reclaimFor(w)
	if !taken.Reclaims() || !preemption.Preempts(w.Pods[0]) {
		return nil
	}
	return v.preempt(o, w, taken)
}

// preempt changes the verdict if preempting Pods of a lower priority, or taking back GPUs that other queues have
// borrowed, makes room. If the best victims are more than their queues have to give back, others are looked for, as
// gpu-scheduler does.
func (v *View) preempt(o *Outlook, w *clusterview.Waiting, taken *preemption.Queues) error {
	plan, victims, err := v.victims(w, taken)
	if err == nil && plan != nil && taken != nil && !taken.Permits(victims) {
		taken = taken.Least()
		plan, victims, err = v.victims(w, taken)
	}
	if err != nil || len(victims) == 0 { // or they are terminating already
		return err
	}
	if taken != nil {
		kept := slices.DeleteFunc(slices.Clone(victims), func(pod *corev1.Pod) bool {
			_, borrowed := taken.Borrowed(pod)
			return !borrowed
		})
		o.Reclaimed = v.owners(uidsOf(kept))
	}
	o.Verdict, o.Victims, o.Places = AfterPreemption, v.owners(uidsOf(victims)), v.places(w.Gang, plan)
	o.Ends, o.At = nil, nil
	if taken.ExceedsLimits() {
		o.Remedies = nil // those who leave are the remedy
	}
	return nil
}

// victims returns who has to leave for waiting Pods, and where these go then; the plan is nil if nothing helps.
func (v *View) victims(w *clusterview.Waiting, taken *preemption.Queues) (plan *placement.Plan, victims []*corev1.Pod, err error) {
	rules := preemption.Cluster{Holder: v.holder, Spare: v.Spare, Budgets: v.Disruptions, Now: v.Now}
	if taken != nil {
		rules.Victim = taken.Victim
	}
	result, found, err := v.Cluster.Preempt(&w.Gang.Gang, rules.Rules(w.Priority))
	if err != nil || !found {
		return nil, nil, err
	}
	victims = rules.Victims(result)
	more, enough := rules.Complete(taken, victims)
	if !enough {
		return nil, nil, nil
	}
	return result.Plan, slices.Concat(victims, more), nil
}

// holder returns what preemption needs to know about a Pod that holds a place.
func (v *View) holder(uid string) (preemption.Holder, bool) {
	m := v.Member(uid)
	if m == nil {
		return preemption.Holder{}, false
	}
	return preemption.Holder{Pod: m.Pod, Gang: v.GangOf(uid), Leaving: m.Pod.DeletionTimestamp != nil}, true
}

func uidsOf(pods []*corev1.Pod) []string {
	uids := make([]string, len(pods))
	for i, pod := range pods {
		uids[i] = string(pod.UID)
	}
	return uids
}

// addMoves adds the moves that would make room.
func (v *View) addMoves(o *Outlook, w *clusterview.Waiting) error {
	if isForeign(w.Task.GPUTask) {
		return nil // nothing is moved for it
	}
	result, found, err := v.MakeRoom(w.Gang, w.Priority, w.Task.Namespace)
	if err != nil {
		return err
	}
	if !found || len(result.Moves) == 0 {
		o.Immovable = v.immovable(w)
		return nil
	}
	o.Moves = v.MovesOf(result.Moves, nil)
	for i := range o.Moves {
		o.CostGPUSeconds += o.Moves[i].CostGPUSeconds
	}
	if o.Verdict != AfterPreemption {
		o.Verdict, o.Places = AfterMoves, v.places(w.Gang, result.Plan)
	}
	return nil
}

// shownImmovable limits for how many tasks it is explained why they can't be moved.
const shownImmovable = 3

// immovable returns why the tasks on nodes that w could run on can't be moved.
func (v *View) immovable(w *clusterview.Waiting) []string {
	request := v.Cluster.Request(w.Gang.Roles[0].Shape)
	var list []string
	for i := range v.Tasks {
		task := &v.Tasks[i]
		if len(list) == shownImmovable {
			break
		}
		eligible := slices.ContainsFunc(task.Pods, func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName != "" && !podfacts.Ended(pod) && v.isEligible(pod.Spec.NodeName, request)
		})
		if !eligible {
			continue
		}
		if why := v.Immovable(task); why != "" {
			list = append(list, task.Namespace+"/"+task.Name+": "+why)
		}
	}
	return list
}

// ends returns when running Pods will have ended, as far as that is known: those of tasks
// with a deadline or a maximum runtime, and terminating ones after their grace period.
func (v *View) ends() []placement.End {
	latest := map[types.UID]time.Time{}
	for i := range v.Tasks {
		task := &v.Tasks[i]
		at, known := endOfTask(task.GPUTask)
		if !known {
			continue
		}
		for _, pod := range task.Pods {
			latest[pod.UID] = at
		}
	}
	var list []placement.End
	for pod := range v.Placed() {
		at, known := latest[pod.UID]
		// If the Pod still exists after its grace period, its end is unknown.
		if gone := pod.DeletionTimestamp; gone != nil && gone.After(v.Now) && (!known || gone.Time.Before(at)) {
			at, known = gone.Time, true
		}
		if known {
			list = append(list, placement.End{Pod: string(pod.UID), After: max(0, at.Sub(v.Now))})
		}
	}
	slices.SortFunc(list, func(a, b placement.End) int { return cmp.Compare(a.Pod, b.Pod) })
	return list
}
