// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"errors"
	"fmt"
	"slices"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Valid returns why the moves of a plan from an index on can no longer be carried out as
// planned, or why the task that room is made for would not fit after them. It ignores
// budgets and PodDisruptionBudgets, which are temporary.
//
// Places that the plan has reserved for itself must count as free in the view, as they do.
func Valid(p *Planner, plan *v1.MovePlan, from int) (err error) {
	p.Cluster.Try(func() bool {
		if err = p.simulate(plan.Spec.Moves[min(max(0, from), len(plan.Spec.Moves)):]); err == nil && plan.Spec.For != nil {
			err = p.placeTask(plan)
		}
		return false
	})
	return err
}

// Stale returns why a proposed plan should be aborted; it is empty if the plan is still
// good.
func Stale(p *Planner, plan *v1.MovePlan) string {
	if err := Valid(p, plan, 0); err != nil {
		return "the plan is outdated: " + err.Error()
	}
	if plan.Spec.Goal == v1.GoalUnhealthyGPUs && !p.movesOffUnhealthy(plan) {
		return "the GPUs are healthy again"
	}
	before := plan.Spec.CostGPUSeconds
	if now, known := CurrentCost(plan, p.Member, p.Now); known && now.GPUSeconds > 2*before && now.GPUSeconds-before > secondsPerHour {
		return fmt.Sprintf("its cost has grown from %d to %d GPU-seconds", before, now.GPUSeconds)
	}
	if plan.Spec.For == nil {
		return ""
	}
	waiting := p.WaitingFor(plan.Spec.For)
	if _, fits, err := p.Cluster.Plan(&waiting.Gang.Gang); err == nil && fits {
		return fmt.Sprintf("GPUTask %s/%s fits without it", plan.Spec.For.Namespace, plan.Spec.For.Name)
	}
	return ""
}

// simulate carries out moves in the view, turn by turn.
func (p *Planner) simulate(moves []v1.Move) error {
	for len(moves) > 0 {
		end := slices.IndexFunc(moves, func(move v1.Move) bool { return move.Turn != moves[0].Turn })
		if end < 0 {
			end = len(moves)
		}
		if err := p.simulateTurn(moves[:end]); err != nil {
			return err
		}
		moves = moves[end:]
	}
	return nil
}

// simulateTurn moves Pods together: all leave, then all arrive.
func (p *Planner) simulateTurn(turn []v1.Move) error {
	moving := map[*clusterview.Unit]int{}
	for i := range turn {
		m, err := p.memberToMove(&turn[i])
		if err != nil {
			return err
		}
		moving[m.Unit]++
		if turn[i].To.Node != "" { // otherwise the scheduler chooses the node, and nothing depends on it
			p.Cluster.Remove(string(turn[i].PodUID))
		}
	}
	for u, count := range moving {
		if count != len(u.Members) {
			return fmt.Errorf("gang %s has %d Pods and %d of them would be moved", u.Key, len(u.Members), count)
		}
	}
	for i := range turn {
		if move := &turn[i]; move.To.Node != "" {
			if err := p.placeAt(p.Member(string(move.PodUID)), &move.To); err != nil {
				return err
			}
		}
	}
	return nil
}

// memberToMove returns the Pod of a move if it is where it was and may still be moved.
func (p *Planner) memberToMove(move *v1.Move) (*clusterview.Member, error) {
	m := p.Member(string(move.PodUID))
	switch {
	case m == nil || m.Task == nil:
		return nil, fmt.Errorf("move of Pod %s/%s: it has ended or was replaced", move.Task.Namespace, move.Pod)
	case m.Pod.Spec.NodeName != move.From.Node:
		return nil, fmt.Errorf("move of Pod %s/%s: it is no longer on node %s", move.Task.Namespace, move.Pod, move.From.Node)
	}
	if why := p.permanentReason(m.Unit); why != "" {
		return nil, fmt.Errorf("GPUTask %s/%s may not be moved any more: %s", move.Task.Namespace, move.Task.Name, why)
	}
	return m, nil
}

// placeAt places a Pod exactly there.
func (p *Planner) placeAt(m *clusterview.Member, to *v1.MovePlace) error {
	place, fits := p.Cluster.On(to.Node, p.Cluster.Request(m.Shape))
	if !fits {
		return fmt.Errorf("node %s no longer has room for Pod %s/%s", to.Node, m.Pod.Namespace, m.Pod.Name)
	}
	if len(to.GPUs) > 0 {
		cards, all := p.Cards[to.Node].Indices(to.GPUs)
		if len(cards) != len(place.GPUs) {
			return fmt.Errorf("%d GPUs of node %s are planned for Pod %s/%s, which asks for %d", len(to.GPUs), to.Node, m.Pod.Namespace, m.Pod.Name, len(place.GPUs))
		}
		place.GPUs = cards
		if !all || !p.Cluster.Has(to.Node, &place.Use) {
			return fmt.Errorf("GPUs of node %s that Pod %s/%s was to get are no longer free", to.Node, m.Pod.Namespace, m.Pod.Name)
		}
	}
	return p.Cluster.Place(placement.Pod{Name: string(m.Pod.UID), Node: to.Node, Use: place.Use})
}

// placeTask places the Pods of the task that room was made for: as many as must start
// together.
func (p *Planner) placeTask(plan *v1.MovePlan) error {
	waiting := p.WaitingFor(plan.Spec.For)
	if waiting == nil {
		return fmt.Errorf("GPUTask %s/%s does not wait for a node", plan.Spec.For.Namespace, plan.Spec.For.Name)
	}
	if waiting.Err != nil {
		return waiting.Err
	}
	byName := map[string]*clusterview.Member{}
	for _, m := range waiting.Unit.Members {
		byName[m.Pod.Name] = m
	}
	need, have := 0, 0
	for i := range waiting.Gang.Roles {
		need += waiting.Gang.Roles[i].Min
	}
	var failed error
	for i := range plan.Spec.Places {
		place := &plan.Spec.Places[i]
		m := byName[place.Pod]
		if m == nil || !m.Waits() {
			continue
		}
		if err := p.placeAt(m, &place.MovePlace); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		have++
	}
	if have < need {
		return errors.Join(fmt.Errorf("GPUTask %s/%s has places for %d of %d Pods", plan.Spec.For.Namespace, plan.Spec.For.Name, have, need), failed)
	}
	return nil
}
