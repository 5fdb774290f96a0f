// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/config"
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

// asked collects the questions of a decision that is to be recorded. Its methods are for use within mirror.For.
type asked struct {
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

// newAsked returns where to collect questions; nil if decisions are not recorded.
func (p *Planner) newAsked() *asked {
	if p.recorder == nil {
		return nil
	}
	return &asked{in: p.recorder}
}

// question returns a question that is about to be asked.
func (a *asked) question(cluster *placement.Cluster, kind journal.Kind, gang *placement.Gang, only []string) placed {
	at := a.in.Position()
	q := &journal.Question{Kind: kind, After: at.After}
	q.SetGang(gang, only)
	q.SetTrial(cluster.TrialChanges())
	return placed{q, at}
}

// add adds a question to those of the decision.
func (a *asked) add(q placed) {
	if len(a.list) == 0 {
		a.at = q.at
	}
	a.list = append(a.list, q.Question)
}

// plan plans a gang, and records that.
func (a *asked) plan(cluster *placement.Cluster, gang *placement.Gang, check *checker, only []string) (*placement.Plan, bool, error) {
	q := a.question(cluster, journal.Plan, gang, only)
	plan, fits, err := q.planned(cluster, gang, check)
	if err == nil {
		a.add(q)
	}
	return plan, fits, err
}

// planned plans a gang and sets the answer.
func (q placed) planned(cluster *placement.Cluster, gang *placement.Gang, check *checker) (*placement.Plan, bool, error) {
	if check != nil {
		check.judged = &judgements{}
	}
	plan, fits, err := cluster.Plan(gang)
	if fits {
		q.SetPlan(plan)
	}
	q.SetSearch(cluster.LastSearch())
	if check != nil {
		if q.Judgements = check.judged.list; check.judged.cut {
			q.Judgements, q.Cut = nil, fmt.Sprintf("filters refused more than %d places", journal.MaxJudgements)
		}
		check.judged = nil
	}
	return plan, fits, err
}

// without plans a gang as if others had left, and keeps the question if it fits.
func (a *asked) without(cluster *placement.Cluster, gang *placement.Gang, check *checker) (*placement.Plan, bool, error) {
	q := a.question(cluster, journal.Plan, gang, nil)
	plan, fits, err := q.planned(cluster, gang, check)
	if fits {
		if a.byPlan == nil {
			a.byPlan = map[*placement.Plan]placed{}
		}
		a.byPlan[plan] = q
	}
	return plan, fits, err
}

// victims keeps the question that a preemption answers which no filter has checked.
func (a *asked) victims(cluster *placement.Cluster, gang *placement.Gang, found *placement.Preemption) {
	cluster.Try(func() bool {
		for _, name := range found.Victims {
			cluster.Remove(name)
		}
		q := a.question(cluster, journal.Plan, gang, nil)
		q.SetPlan(found.Plan)
		a.byPlan = map[*placement.Plan]placed{found.Plan: q}
		return false
	})
}

// rank records the order of the nodes for a Pod.
func (a *asked) rank(cluster *placement.Cluster, gang *roles, list []placement.Ranked) {
	q := a.question(cluster, journal.Rank, &gang.Gang, nil)
	q.SetRanked(list, gang.Except)
	q.SetSearch(cluster.LastSearch())
	a.add(q)
}

// on records the place of a Pod on one node.
func (a *asked) on(cluster *placement.Cluster, shape placement.Shape, node string, place *placement.Place, fits bool) {
	q := a.question(cluster, journal.On, &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}, nil)
	if q.Node = node; fits {
		q.SetPlace(place)
	}
	a.add(q)
}

// judgements are what a checker has answered, except that it accepted.
type judgements struct {
	calls int
	list  []journal.Judgement
	cut   bool
}

// note notes an answer; j may be nil.
func (j *judgements) note(role int, node string, answer placement.Judgement) {
	if j == nil {
		return
	}
	call := j.calls
	j.calls++
	switch {
	case answer == placement.Accepted:
	case len(j.list) == journal.MaxJudgements:
		j.cut = true
	default:
		j.list = append(j.list, journal.Judgement{Call: call, Role: role, Node: node, Judgement: uint8(answer)})
	}
}

// decided records a decision about a gang; the rest of it is set by change, which may be nil.
func (p *Planner) decided(attempt *gangs.Attempt, gang *roles, begin time.Time, outcome journal.Outcome, why string, change func(*journal.Decision)) {
	if p.recorder == nil {
		return
	}
	first := attempt.Waiting[0]
	d := &journal.Decision{
		Time: begin, Subject: attempt.Group.Key, UID: string(first.UID), Gang: !attempt.Group.Alone, Pods: len(attempt.Waiting), Need: attempt.Need,
		Priority: attempt.Priority, Outcome: outcome, Why: why, Microseconds: p.clock.Since(begin).Microseconds(),
	}
	if attempt.Group.Alone {
		d.Subject = keyOf(first)
	}
	at, known := recorder.Position{}, false
	if gang != nil {
		d.Claimed = gang.claimed[:min(len(gang.claimed), journal.MaxClaimed)]
		setRefusals(d, gang.refused)
		if gang.asked != nil && len(gang.asked.list) > 0 {
			d.Asked, at, known = gang.asked.list, gang.asked.at, true
		}
	}
	if !known {
		at = p.recorder.Position()
	}
	d.After, d.Digest = at.After, at.Digest.String()
	if change != nil {
		change(d)
	}
	p.recorder.Decided(d)
}

// setRefusals records what filters refused.
func setRefusals(d *journal.Decision, refused *refusals) {
	if !refused.any() {
		return
	}
	d.Refused = refused.String()
	if refused.everywhere != nil {
		d.Refusals = append(d.Refusals, journal.Refusal{Plugin: refused.everywhere.Plugin, Reason: refused.everywhere.Reason})
	}
	for _, node := range slices.Sorted(maps.Keys(refused.byNode)) {
		if len(d.Refusals) == journal.MaxRefusals {
			return
		}
		d.Refusals = append(d.Refusals, journal.Refusal{Node: node, Plugin: refused.byNode[node].Plugin, Reason: refused.byNode[node].Reason})
	}
}

// seated records that a gang has got places.
func (p *Planner) seated(attempt *gangs.Attempt, gang *roles, begin time.Time, members []*gangs.Member, places []placement.Place) {
	if p.recorder == nil {
		return
	}
	p.decided(attempt, gang, begin, journal.Placed, whyPlaced(gang, len(places))+p.refusingNote(attempt), func(d *journal.Decision) {
		d.Places = make([]journal.Seat, len(places))
		for i := range places {
			d.Places[i] = journal.Seat{Pod: keyOf(members[i]), Node: places[i].Node, GPUs: places[i].GPUs, Percent: places[i].Percent}
		}
	})
}

// whyPlaced says why a gang has got its places.
func whyPlaced(gang *roles, places int) string {
	if gang.asked == nil || len(gang.asked.list) == 0 {
		return "its place is the one that a MovePlan keeps for it"
	}
	q := gang.asked.list[len(gang.asked.list)-1]
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
func (p *Planner) ranked(attempt *gangs.Attempt, gang *roles, begin time.Time, order map[string]int) {
	if p.recorder == nil {
		return
	}
	why := fmt.Sprintf("its profile chooses one of %d nodes with room", len(order)) + p.refusingNote(attempt)
	p.decided(attempt, gang, begin, journal.Ranked, why, nil)
}

// preempted records that Pods have to leave for a gang.
func (p *Planner) preempted(attempt *gangs.Attempt, gang *roles, begin time.Time, found *preemptionPlan, why string) {
	if p.recorder == nil {
		return
	}
	p.decided(attempt, nil, begin, journal.Preempts, why, func(d *journal.Decision) {
		if gang.asked != nil {
			if q, known := gang.asked.byPlan[found.plan]; known {
				d.Asked, d.After, d.Digest = []*journal.Question{q.Question}, q.at.After, q.at.Digest.String()
			}
		}
		for _, victim := range found.victims {
			d.Victims = append(d.Victims, journal.Victim{Pod: victim.Namespace + "/" + victim.Name, Node: victim.Spec.NodeName})
		}
		members, places := gang.Assign(found.plan)
		for i := range places {
			d.Places = append(d.Places, journal.Seat{Pod: keyOf(members[i]), Node: places[i].Node, GPUs: places[i].GPUs, Percent: places[i].Percent})
		}
	})
}

var _ mirror.Recorder = (*recorder.Recorder)(nil)
