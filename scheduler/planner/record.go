// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
	"falldio.github.io/gpu-controller/scheduler/nodeproblems"
)

// startJournal records decisions until ctx ends, if the arguments say where.
func (p *Planner) startJournal(ctx context.Context, instance string) error {
	where := p.args.Journal
	if where == nil {
		return nil
	}
	metrics, err := recorder.NewMetrics()
	if err != nil {
		return err
	}
	options := recorder.Options{
		Directory: where.Directory, MaxBytes: int64(where.MaxMegabytes) << 20, Run: instance, Levels: p.args.Levels().Names(),
		Tolerance: p.args.PreferenceTolerance, Clock: p.clock, Logger: p.logger, Metrics: metrics,
	}
	created, err := recorder.New(options)
	if err != nil {
		return fmt.Errorf("arguments of plugin %s: journal: %w", config.GangPlugin, err)
	}
	p.record(created)
	go created.Run(ctx)
	return nil
}

// record records decisions from now on.
func (p *Planner) record(in *recorder.Recorder) {
	p.decisions.recorder = in
	p.mirror.Record(in)
}

// Journal returns what records decisions, and where it is to be served; nil if nothing is recorded.
func (p *Planner) Journal() (in *recorder.Recorder, port int) {
	if p.decisions.recorder == nil || p.args.Journal == nil {
		return p.decisions.recorder, 0
	}
	return p.decisions.recorder, *p.args.Journal.Port
}

// decisions records what is decided about gangs. Its methods do nothing if that is not recorded.
type decisions struct {
	recorder *recorder.Recorder
	clock    clock.PassiveClock
	problems *nodeproblems.Monitor
}

// record records a decision about a gang; the rest of it is set by change, which may be nil.
func (c *decisions) record(s *search, outcome journal.Outcome, why string, change func(*journal.Decision)) {
	if c.recorder == nil {
		return
	}
	attempt, first := s.attempt, s.attempt.Waiting[0]
	d := &journal.Decision{
		Time: s.begin, Subject: attempt.Group.Key, UID: string(first.UID), Gang: !attempt.Group.Alone, Pods: len(attempt.Waiting), Need: attempt.Need,
		Priority: attempt.Priority, Outcome: outcome, Why: why, Microseconds: c.clock.Since(s.begin).Microseconds(),
	}
	if attempt.Group.Alone {
		d.Subject = keyOf(first)
	}
	if s.request != nil {
		d.Claimed = s.request.Kept[:min(len(s.request.Kept), journal.MaxClaimed)]
	}
	setRefusals(d, s.refused)
	c.recorder.Ask(d, s.questions)
	if change != nil {
		change(d)
	}
	c.recorder.Decided(d)
}

// setRefusals records what filters refused.
func setRefusals(d *journal.Decision, refused *filters.Refusals) {
	if !refused.Any() {
		return
	}
	d.Refused = refused.String()
	refused.Each(func(node string, one *filters.Refusal) {
		if len(d.Refusals) < journal.MaxRefusals {
			d.Refusals = append(d.Refusals, journal.Refusal{Node: node, Plugin: one.Plugin, Reason: one.Reason})
		}
	})
}

// placed records that a gang has got places.
func (c *decisions) placed(s *search, found *seating) {
	if c.recorder == nil {
		return
	}
	c.record(s, journal.Placed, whyPlaced(s.questions.Last(), len(found.places))+refusingNote(c.problems.Refusing(s.attempt.Waiting[0].Pod().Namespace)), func(d *journal.Decision) {
		d.Places = found.seats()
	})
}

// seats returns the places for the record.
func (s *seating) seats() []journal.Seat {
	seats := make([]journal.Seat, len(s.places))
	for i := range s.places {
		place := &s.places[i]
		seats[i] = journal.Seat{Pod: keyOf(s.members[i]), Node: place.Node, GPUs: place.GPUs, Percent: place.Percent}
	}
	return seats
}

// whyPlaced says why a gang has got its places.
func whyPlaced(q *journal.Question, places int) string {
	if q == nil {
		return "its place is the one that a MovePlan keeps for it"
	}
	where := ""
	switch {
	case len(q.Domains) == 1:
		where = ", all in " + q.Domains[0]
	case len(q.Domains) > 1:
		where = fmt.Sprintf(", in %d domains", len(q.Domains))
	}
	switch {
	case q.Kind == journal.On:
		return "its profile has chosen the node"
	case places > 1:
		return fmt.Sprintf("the cheapest places for %d Pods%s; %d of %d nodes had room for the first", places, where, q.Room, q.Nodes)
	case q.Room == 1:
		return fmt.Sprintf("the only one of %d nodes with room%s", q.Nodes, where)
	default:
		return fmt.Sprintf("the cheapest of %d nodes with room%s, of %d", q.Room, where, q.Nodes)
	}
}

// ranked records the order of the nodes for a Pod whose profile chooses.
func (c *decisions) ranked(s *search, order map[string]int) {
	if c.recorder == nil {
		return
	}
	why := fmt.Sprintf("its profile chooses one of %d nodes with room", len(order)) + refusingNote(c.problems.Refusing(s.attempt.Waiting[0].Pod().Namespace))
	c.record(s, journal.Ranked, why, nil)
}

// preempts records that Pods have to leave for a gang.
func (c *decisions) preempts(s *search, found *preemptionPlan, why string) {
	if c.recorder == nil {
		return
	}
	c.record(&search{attempt: s.attempt, begin: s.begin}, journal.Preempts, why, func(d *journal.Decision) {
		s.questions.DecidePreemption(d, found.plan)
		for _, victim := range found.victims {
			d.Victims = append(d.Victims, journal.Victim{Pod: victim.Namespace + "/" + victim.Name, Node: victim.Spec.NodeName})
		}
		var room seating
		room.members, room.places = s.request.Assign(found.plan)
		d.Places = room.seats()
	})
}

// maxNoted is how many nodes a note names.
const maxNoted = 8

// refusingNote says which nodes were the last choice for a gang since they refuse Pods.
func refusingNote(nodes []string) string {
	more := ""
	switch {
	case len(nodes) == 0:
		return ""
	case len(nodes) > maxNoted:
		nodes, more = nodes[:maxNoted], fmt.Sprintf(" and %d more", len(nodes)-maxNoted)
	}
	return "; nodes that refused Pods lately were left for last: " + strings.Join(nodes, ", ") + more
}
