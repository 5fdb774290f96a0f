// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// makeRoomForOne returns a plan for the first task in the queue for which moves can make
// room. blocked reports whether a waiting task could fit, so that nothing may be moved for
// other purposes.
func (p *Planner) makeRoomForOne(report *Report) (plan *v1.MovePlan, blocked bool) {
	search := p.Options.Searches.begin()
	// Tasks that fit without moves will start soon: their places are not free for others.
	p.Cluster.Try(func() bool {
		for _, w := range p.Waiting() {
			if plan != nil {
				report.addWaiting(&w, "another waiting task comes first")
				continue
			}
			candidate, message := p.planFor(&w, search)
			if candidate != nil {
				plan = candidate
			}
			if message.blocks && !blocked {
				blocked = true
				report.Why = fmt.Sprintf("GPUTask %s/%s waits: %s", w.Task.Namespace, w.Task.Name, message.text)
			}
			report.addWaiting(&w, message.text)
		}
		return false
	})
	search.end(plan != nil)
	if plan != nil {
		report.Why = ""
	}
	return plan, blocked
}

// message explains the result for a waiting task; blocks is true if nothing else may be
// moved while it waits.
type message struct {
	text   string
	blocks bool
}

// planFor returns a plan that makes room for a waiting task, or why there is none.
func (p *Planner) planFor(w *clusterview.Waiting, search *search) (*v1.MovePlan, message) {
	if w.Err != nil {
		return nil, message{text: w.Err.Error()}
	}
	if refusal := p.Queues.Refusal(w.Pods[0], w.Gang.Gang); refusal != "" {
		return nil, message{text: refusal} // room would be of no use to it
	}
	fit, fits, err := p.Cluster.Plan(&w.Gang.Gang)
	if err != nil {
		return nil, message{text: err.Error()}
	}
	if fits {
		p.assume(w, fit)
		return nil, message{text: "it fits without moves", blocks: w.Patient <= p.Options.Patience}
	}
	ref := refTo(w.Task.GPUTask)
	switch why := p.backoffReason(v1.GoalPendingTask, &ref); {
	case p.Options.Namespace != "" && w.Task.Namespace != p.Options.Namespace:
		return nil, message{text: "only tasks of namespace " + p.Options.Namespace + " are handled"}
	case w.Patient <= p.Options.Patience:
		return nil, message{text: fmt.Sprintf("it has waited for less than %v", p.Options.Patience), blocks: true}
	case why != "":
		return nil, message{text: why, blocks: true}
	case search.hopeless[demandKey(w)]:
		return nil, message{text: noMoves, blocks: true}
	case !p.fitsEmpty(w):
		return nil, message{text: "it would not fit even if nothing else ran"}
	case p.freePercent() < percentOf(w):
		return nil, message{text: "it asks for more GPU capacity than is free in total: moves can't help", blocks: true}
	}
	if why := search.denied(w.Task.Namespace, demandKey(w)); why != "" {
		return nil, message{text: why, blocks: true}
	}
	plan, message := p.makeRoomFor(w)
	if search.hopeless[demandKey(w)] = plan == nil; plan != nil {
		search.found(w.Task.Namespace, demandKey(w))
	}
	return plan, message
}

// demandKey returns a key that is equal for tasks with equal demands.
func demandKey(w *clusterview.Waiting) string {
	g := &w.Gang.Gang
	text := []string{fmt.Sprint(w.Priority, g.Level, g.Required, g.Within)}
	for i := range g.Roles {
		text = append(text, fmt.Sprintf("%d %d %q", g.Roles[i].Min, g.Roles[i].Max, g.Roles[i].Shape.Key()))
	}
	return strings.Join(text, " ")
}

const noMoves = "no moves within the limits make room for it"

// fitsEmpty reports whether a gang would fit if nothing ran.
func (p *Planner) fitsEmpty(w *clusterview.Waiting) bool {
	outlook, err := p.Cluster.WhatIf(&w.Gang.Gang, nil)
	return err == nil && outlook.Verdict < placement.FitsOpened
}

// freePercent returns how much of all GPUs together is free, in percent of one GPU. Moves
// don't increase it.
func (p *Planner) freePercent() int {
	sum := 0
	p.Cluster.Root().States(func(state *placement.State, nodes int) {
		if !state.Closed() {
			sum += nodes * state.Percent()
		}
	})
	return sum
}

// percentOf returns what the Pods of a task that must start together need, in percent of a
// GPU.
func percentOf(w *clusterview.Waiting) int {
	sum := 0
	for i := range w.Gang.Roles {
		sum += w.Gang.Roles[i].Min * w.Gang.Roles[i].Shape.Percent()
	}
	return sum
}

// assume counts the places that a task will get as taken.
func (p *Planner) assume(w *clusterview.Waiting, plan *placement.Plan) {
	pods, places := w.Gang.Assign(plan)
	for i, pod := range pods {
		// This can't fail: the place has just been found to be free.
		_ = p.Cluster.Place(placement.Pod{Name: string(pod.UID), Node: places[i].Node, Use: places[i].Use})
	}
}

func (p *Planner) makeRoomFor(w *clusterview.Waiting) (*v1.MovePlan, message) {
	result, found, err := p.MakeRoom(w.Gang, w.Priority, w.Task.Namespace)
	if err != nil {
		return nil, message{text: err.Error()}
	}
	if !found {
		return nil, message{text: noMoves, blocks: true}
	}
	places, gpus := p.placesOf(w.Gang, result.Plan)
	if len(places) > maxMoves {
		return nil, message{text: fmt.Sprintf("it has more than %d Pods: a plan can't have as many places", maxMoves)}
	}
	ref := refTo(w.Task.GPUTask)
	moves := p.MovesOf(result.Moves, func(move *placement.Move) string {
		return fmt.Sprintf("makes room on node %s for GPUTask %s/%s", move.From.Node, ref.Namespace, ref.Name)
	})
	gain := v1.MoveGain{GPUs: int32(gpus)} //nolint:gosec // few
	plan := p.finish(&v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "make-room-" + w.Task.Name + "-"},
		Spec: v1.MovePlanSpec{
			Goal: v1.GoalPendingTask, For: &ref, Places: places, Moves: moves, Gain: gain,
			Reason: fmt.Sprintf("GPUTask %s/%s fits nowhere and gets %s: %s", ref.Namespace, ref.Name, whatItGets(w, gpus), costText(moves)),
		},
	})
	if why := p.yieldReason(plan); why != "" {
		return nil, message{text: why, blocks: true}
	}
	return plan, message{text: plan.Spec.Reason, blocks: true}
}

// whatItGets says what a task gets that room is made for, which is so many GPUs.
func whatItGets(w *clusterview.Waiting, gpus int) string {
	if gpus > 0 && percentOf(w) == 0 {
		return "its MIG slices" // of which a few are no GPU
	}
	return plural.Count(gpus, "GPU")
}
