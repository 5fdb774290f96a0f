// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// tryScored looks for nodes for a Pod that is alone, of which the profile's scores choose one.
func (p *Planner) tryScored(s *search) Decision {
	s.questions = p.decisions.recorder.NewQuestions()
	order, blocked := p.finder.rank(s)
	switch {
	case blocked != nil:
		return p.waitForMoves(s, blocked)
	case len(order) > 0:
		p.decisions.ranked(s, order)
		return Decision{Order: order}
	}
	return p.fail(s)
}

// tryPlan looks for places for all Pods of an attempt. What it did not find is remembered until more is freed than at
// the beginning.
func (p *Planner) tryPlan(s *search, freed uint64) Decision {
	s.questions = p.decisions.recorder.NewQuestions()
	s.check = p.filters.CheckerUnlessTrusted(s.request)
	found, blocked := p.finder.plan(s)
	p.metrics.plans.Observe(p.clock.Since(s.begin).Seconds())
	s.refused = s.check.Outcome()
	p.filters.SearchEnded(s.request, found != nil, s.refused)
	switch {
	case blocked != nil:
		return p.waitForMoves(s, blocked)
	case found != nil:
		return p.seat(s, found)
	}
	p.filters.Failed(freed, s.keys, s.refused)
	return p.fail(s)
}

// seat carries out a plan.
func (p *Planner) seat(s *search, found *seating) Decision {
	turn := s.attempt.Waiting[0].UID
	number := p.assignSeats(s.attempt, found)
	if number == 0 {
		now := p.clock.Now()
		p.registry.Fail(s.attempt.Group, now, now.Add(shortestPause))
		return Decision{Waits: "its gang has just changed"}
	}
	p.decisions.placed(s, found)
	for i, m := range found.members {
		switch {
		case m.UID != turn:
		case i > 0 && s.refused.Ordered():
			p.activate([]*corev1.Pod{m.Pod()}) // after those that it depends on
		default:
			return Decision{Node: found.places[i].Node, Plan: number}
		}
	}
	return Decision{Waits: "other Pods of its gang are placed first"}
}

// assignSeats gives members their seats, and returns the plan's number; 0 if they can no
// longer take them.
func (p *Planner) assignSeats(attempt *gangs.Attempt, found *seating) uint64 {
	for i, m := range found.members {
		p.mirror.Hold(m.Pod(), found.places[i])
	}
	number, actions := p.registry.Seat(attempt.Group, found.members, found.places, attempt.Waiting[0].UID, p.clock.Now())
	if number == 0 {
		p.mirror.Release(uidsOf(found.members))
		return 0
	}
	p.endPlaces(attempt.Group.Key)
	p.filters.Placed(attempt.Group.Key)
	p.metrics.started(attempt, p.line.State().QueueOf(attempt.Waiting[0].Pod()).Queue, p.clock.Since(attempt.Group.Since))
	p.do(actions)
	return number
}

func uidsOf(members []*gangs.Member) []types.UID {
	uids := make([]types.UID, len(members))
	for i, m := range members {
		uids[i] = m.UID
	}
	return uids
}

// Reserve seats a Pod on the node that its profile has chosen, and returns the
// number of its plan.
func (p *Planner) Reserve(pod *corev1.Pod, node string) (uint64, error) {
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return 0, errors.New("the Pod is no longer waiting")
	}
	s := &search{attempt: attempt, begin: p.clock.Now(), questions: p.decisions.recorder.NewQuestions()}
	place, fits := p.finder.placeOn(attempt, node, s.questions)
	if !fits {
		return 0, fmt.Errorf("node %s: its GPUs are no longer free", node)
	}
	chosen := &seating{members: attempt.Waiting[:1], places: []placement.Place{place}}
	number := p.assignSeats(attempt, chosen)
	if number == 0 {
		return 0, errors.New("the Pod is no longer waiting")
	}
	p.decisions.placed(s, chosen)
	return number, nil
}
