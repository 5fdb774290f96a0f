// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"strings"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
	"falldio.github.io/gpu-controller/scheduler/mirror"
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
		Directory: where.Directory, MaxBytes: int64(where.MaxMegabytes) << 20, Run: instance, Levels: p.levels.Names(),
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
	p.recorder = in
	p.mirror.Record(in)
}

// Journal returns what records decisions, and where it is to be served; nil if nothing is recorded.
func (p *Planner) Journal() (in *recorder.Recorder, port int) {
	if p.recorder == nil || p.args.Journal == nil {
		return p.recorder, 0
	}
	return p.recorder, *p.args.Journal.Port
}

// questions collects the questions of a decision that is to be recorded. Its methods are for use within mirror.For.
type questions struct {
	in   *recorder.Recorder
	list []*journal.Question
	// at is the position at the first of them.
	at recorder.Position
	// byPlan are questions about what would be if others left, by the answer.
	byPlan map[*placement.Plan]placed
}

// placed is a question with its position.
type placed struct {
	*journal.Question
	at recorder.Position
}

// newQuestions returns where to collect questions; nil if decisions are not recorded.
func (p *Planner) newQuestions() *questions {
	if p.recorder == nil {
		return nil
	}
	return &questions{in: p.recorder}
}

// any reports whether anything was asked that is recorded.
func (r *questions) any() bool { return r != nil && len(r.list) > 0 }

// question returns a question that is about to be asked.
func (r *questions) question(cluster *placement.Cluster, kind journal.Kind, gang *placement.Gang, only []string) placed {
	at := r.in.Position()
	q := &journal.Question{Kind: kind, After: at.After}
	q.SetGang(gang, only)
	q.SetTrial(cluster.TrialChanges())
	return placed{q, at}
}

// add adds a question to those of the decision.
func (r *questions) add(q placed) {
	if len(r.list) == 0 {
		r.at = q.at
	}
	r.list = append(r.list, q.Question)
}

// plan plans a gang, and records that.
func (r *questions) plan(cluster *placement.Cluster, gang *placement.Gang, only []string) (*placement.Plan, bool, error) {
	q := r.question(cluster, journal.Plan, gang, only)
	plan, fits, err := q.planned(cluster, gang)
	if err == nil {
		r.add(q)
	}
	return plan, fits, err
}

// planned plans a gang and sets the answer.
func (q placed) planned(cluster *placement.Cluster, gang *placement.Gang) (*placement.Plan, bool, error) {
	judged := &judgements{Checker: gang.Checker}
	if gang.Checker != nil {
		noted := *gang
		noted.Checker = judged
		gang = &noted
	}
	plan, fits, err := cluster.Plan(gang)
	if fits {
		q.SetPlan(plan)
	}
	q.SetSearch(cluster.LastSearch())
	if q.Judgements = judged.list; judged.cut {
		q.Judgements, q.Cut = nil, fmt.Sprintf("filters refused more than %d places", journal.MaxJudgements)
	}
	return plan, fits, err
}

// PlanWithout implements filters.Plans: it keeps the question if the gang fits.
func (r *questions) PlanWithout(cluster *placement.Cluster, gang *placement.Gang) (*placement.Plan, bool, error) {
	if r == nil {
		return cluster.Plan(gang)
	}
	q := r.question(cluster, journal.Plan, gang, nil)
	plan, fits, err := q.planned(cluster, gang)
	if fits {
		if r.byPlan == nil {
			r.byPlan = map[*placement.Plan]placed{}
		}
		r.byPlan[plan] = q
	}
	return plan, fits, err
}

// Proposed implements filters.Plans: it keeps the question that a preemption answers which no filter has checked.
func (r *questions) Proposed(cluster *placement.Cluster, gang *placement.Gang, found *placement.Preemption) {
	if r == nil {
		return
	}
	cluster.Try(func() bool {
		for _, name := range found.Victims {
			cluster.Remove(name)
		}
		q := r.question(cluster, journal.Plan, gang, nil)
		q.SetPlan(found.Plan)
		r.byPlan = map[*placement.Plan]placed{found.Plan: q}
		return false
	})
}

// rank records the order of the nodes for a Pod.
func (r *questions) rank(cluster *placement.Cluster, request *gangs.Request, list []placement.Ranked) {
	q := r.question(cluster, journal.Rank, &request.Gang, nil)
	q.SetRanked(list, request.Except)
	q.SetSearch(cluster.LastSearch())
	r.add(q)
}

// on records the place of a Pod on one node.
func (r *questions) on(cluster *placement.Cluster, shape placement.Shape, node string, place *placement.Place, fits bool) {
	q := r.question(cluster, journal.On, &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}, nil)
	if q.Node = node; fits {
		q.SetPlace(place)
	}
	r.add(q)
}

// judgements is a Checker that notes what another one answers, except that it accepts.
type judgements struct {
	placement.Checker
	calls int
	list  []journal.Judgement
	cut   bool
}

// Place implements placement.Checker.
func (j *judgements) Place(role int, node string) placement.Judgement {
	call, answer := j.calls, j.Checker.Place(role, node)
	j.calls++
	switch {
	case answer == placement.Accepted:
	case len(j.list) == journal.MaxJudgements:
		j.cut = true
	default:
		j.list = append(j.list, journal.Judgement{Call: call, Role: role, Node: node, Judgement: uint8(answer)})
	}
	return answer
}

// recordDecision records a decision about a gang; the rest of it is set by change, which may be nil.
func (p *Planner) recordDecision(s *search, outcome journal.Outcome, why string, change func(*journal.Decision)) {
	if p.recorder == nil {
		return
	}
	attempt, first := s.attempt, s.attempt.Waiting[0]
	d := &journal.Decision{
		Time: s.begin, Subject: attempt.Group.Key, UID: string(first.UID), Gang: !attempt.Group.Alone, Pods: len(attempt.Waiting), Need: attempt.Need,
		Priority: attempt.Priority, Outcome: outcome, Why: why, Microseconds: p.clock.Since(s.begin).Microseconds(),
	}
	if attempt.Group.Alone {
		d.Subject = keyOf(first)
	}
	if s.request != nil {
		d.Claimed = s.request.Kept[:min(len(s.request.Kept), journal.MaxClaimed)]
	}
	setRefusals(d, s.refused)
	var at recorder.Position
	if s.questions.any() {
		d.Asked, at = s.questions.list, s.questions.at
	} else {
		at = p.recorder.Position()
	}
	d.After, d.Digest = at.After, at.Digest.String()
	if change != nil {
		change(d)
	}
	p.recorder.Decided(d)
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

// recordPlaced records that a gang has got places.
func (p *Planner) recordPlaced(s *search, found *seating) {
	if p.recorder == nil {
		return
	}
	p.recordDecision(s, journal.Placed, whyPlaced(s.questions, len(found.places))+refusingNote(p.problems.Refusing(s.attempt.Waiting[0].Pod().Namespace)), func(d *journal.Decision) {
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
func whyPlaced(asked *questions, places int) string {
	if !asked.any() {
		return "its place is the one that a MovePlan keeps for it"
	}
	q := asked.list[len(asked.list)-1]
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

// recordRanked records the order of the nodes for a Pod whose profile chooses.
func (p *Planner) recordRanked(s *search, order map[string]int) {
	if p.recorder == nil {
		return
	}
	why := fmt.Sprintf("its profile chooses one of %d nodes with room", len(order)) + refusingNote(p.problems.Refusing(s.attempt.Waiting[0].Pod().Namespace))
	p.recordDecision(s, journal.Ranked, why, nil)
}

// recordPreemption records that Pods have to leave for a gang.
func (p *Planner) recordPreemption(s *search, found *preemptionPlan, why string) {
	if p.recorder == nil {
		return
	}
	p.recordDecision(&search{attempt: s.attempt, begin: s.begin}, journal.Preempts, why, func(d *journal.Decision) {
		if s.questions != nil {
			if q, known := s.questions.byPlan[found.plan]; known {
				d.Asked, d.After, d.Digest = []*journal.Question{q.Question}, q.at.After, q.at.Digest.String()
			}
		}
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

var _ mirror.Recorder = (*recorder.Recorder)(nil)
