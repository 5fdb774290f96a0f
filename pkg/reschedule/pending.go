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
)

// maxSearches is for how many tasks that do not fit moves are looked for in one call:
// each search takes milliseconds to a second.
const maxSearches = 4

// makeRoomForOne returns a plan for the first task in the queue that moves can help.
// blocked reports whether there is one that waits and could fit, so that nothing is to be
// moved for other purposes.
func (p *Planner) makeRoomForOne(report *Report) (plan *v1.MovePlan, blocked bool) {
	searches := searches{hopeless: map[string]bool{}}
	// Those that fit as it is will start soon: what they get is not free for others.
	p.Cluster.Try(func() bool {
		for _, w := range p.Waiting() {
			if plan != nil {
				report.tell(&w, "another task that waits comes first")
				continue
			}
			its, message := p.helps(&w, &searches)
			if its != nil {
				plan = its
			}
			if message.blocks && !blocked {
				blocked = true
				report.Why = fmt.Sprintf("GPUTask %s/%s waits: %s", w.Task.Namespace, w.Task.Name, message.text)
			}
			report.tell(&w, message.text)
		}
		return false
	})
	if plan != nil {
		report.Why = ""
	}
	return plan, blocked
}

// message is what is said of a task that waits; blocks is true if nothing else may be
// moved while it waits.
type message struct {
	text   string
	blocks bool
}

// helps returns a plan for a task that waits, or why there is none.
func (p *Planner) helps(w *clusterview.Waiting, searches *searches) (*v1.MovePlan, message) {
	if w.Err != nil {
		return nil, message{text: w.Err.Error()}
	}
	fit, fits, err := p.Cluster.Plan(&w.Gang.Gang)
	if err != nil {
		return nil, message{text: err.Error()}
	}
	if fits {
		p.promise(w, fit)
		return nil, message{text: "it fits as it is", blocks: w.Patient <= p.Options.Patience}
	}
	ref := refTo(w.Task.GPUTask)
	switch why := p.holdsOff(v1.GoalPendingTask, &ref); {
	case p.Options.Namespace != "" && w.Task.Namespace != p.Options.Namespace:
		return nil, message{text: "only tasks of namespace " + p.Options.Namespace + " are looked after"}
	case w.Patient <= p.Options.Patience:
		return nil, message{text: fmt.Sprintf("it has waited for less than %v", p.Options.Patience), blocks: true}
	case why != "":
		return nil, message{text: why, blocks: true}
	case searches.hopeless[kindOf(w)]:
		return nil, message{text: noMoves, blocks: true}
	case searches.count >= maxSearches:
		return nil, message{text: "moves are looked for when fewer tasks wait before it", blocks: true}
	case !p.possible(w):
		return nil, message{text: "it would not fit if nothing else ran"}
	case p.free() < percentOf(w):
		return nil, message{text: "less is free of all GPUs together than it asks for: moves can't help", blocks: true}
	}
	searches.count++
	plan, message := p.makeRoomFor(w)
	searches.hopeless[kindOf(w)] = plan == nil
	return plan, message
}

// searches are those of one call.
type searches struct {
	count int
	// hopeless are kinds of tasks for which no moves were found. What others get
	// meanwhile does not make it easier.
	hopeless map[string]bool
}

// kindOf is the same for tasks that ask for the same.
func kindOf(w *clusterview.Waiting) string {
	g := &w.Gang.Gang
	text := []string{fmt.Sprint(w.Priority, g.Level, g.Required, g.Within)}
	for i := range g.Roles {
		text = append(text, fmt.Sprintf("%d %d %q", g.Roles[i].Min, g.Roles[i].Max, g.Roles[i].Shape.Key()))
	}
	return strings.Join(text, " ")
}

const noMoves = "no moves within the limits make room for it"

// possible reports whether a gang fits when nothing runs.
func (p *Planner) possible(w *clusterview.Waiting) bool {
	outlook, err := p.Cluster.WhatIf(&w.Gang.Gang, nil)
	return err == nil && outlook.Verdict != placement.FitsNever
}

// free is what is free of all GPUs, in percent of one. Moves do not make it more.
func (p *Planner) free() int {
	sum := 0
	p.Cluster.Root().States(func(state *placement.State, nodes int) {
		if !state.Closed() {
			sum += nodes * state.Percent()
		}
	})
	return sum
}

// percentOf is what has to start together of a task, in percent of a GPU.
func percentOf(w *clusterview.Waiting) int {
	sum := 0
	for i := range w.Gang.Roles {
		sum += w.Gang.Roles[i].Min * w.Gang.Roles[i].Shape.Percent()
	}
	return sum
}

// promise counts what a task will get as taken.
func (p *Planner) promise(w *clusterview.Waiting, plan *placement.Plan) {
	pods, places := w.Gang.Assign(plan)
	for i, pod := range pods {
		// It has just been found free.
		_ = p.Cluster.Place(placement.Pod{Name: string(pod.UID), Node: places[i].Node, Use: places[i].Use})
	}
}

func (p *Planner) makeRoomFor(w *clusterview.Waiting) (*v1.MovePlan, message) {
	result, found, err := p.MakeRoom(w.Gang, w.Priority)
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
			Reason: fmt.Sprintf("GPUTask %s/%s fits nowhere and gets %s: %s", ref.Namespace, ref.Name, gpuCount(gpus), loses(moves)),
		},
	})
	if why := p.yields(plan); why != "" {
		return nil, message{text: why, blocks: true}
	}
	return plan, message{text: plan.Spec.Reason, blocks: true}
}

func gpuCount(count int) string {
	if count == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", count)
}
