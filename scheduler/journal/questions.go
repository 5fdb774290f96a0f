// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"

	format "falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Questions collects the questions to the engine of a decision that is to be recorded; nil if it is not. Its methods
// are for use within mirror.For.
type Questions struct {
	in   *Recorder
	list []*format.Question
	// at is the position at the first of them.
	at Position
	// byPlan are questions about what would be if others left, by the answer.
	byPlan map[*placement.Plan]posed
}

// posed is a question with its position.
type posed struct {
	*format.Question
	at Position
}

// NewQuestions returns where to collect questions; nil for a Recorder that is nil.
func (r *Recorder) NewQuestions() *Questions {
	if r == nil {
		return nil
	}
	return &Questions{in: r}
}

// any reports whether anything was asked that is recorded.
func (r *Questions) any() bool { return r != nil && len(r.list) > 0 }

// question returns a question that is about to be asked.
func (r *Questions) question(cluster *placement.Cluster, kind format.Kind, gang *placement.Gang, only []string) posed {
	at := r.in.Position()
	q := &format.Question{Kind: kind, After: at.After}
	q.SetGang(gang, only)
	q.SetTrial(cluster.TrialChanges())
	return posed{q, at}
}

// add adds a question to those of the decision.
func (r *Questions) add(q posed) {
	if len(r.list) == 0 {
		r.at = q.at
	}
	r.list = append(r.list, q.Question)
}

// Plan plans a gang, and records that.
func (r *Questions) Plan(cluster *placement.Cluster, gang *placement.Gang, only []string) (*placement.Plan, bool, error) {
	if r == nil {
		return cluster.Plan(gang)
	}
	q := r.question(cluster, format.Plan, gang, only)
	plan, fits, err := q.planned(cluster, gang)
	if err == nil {
		r.add(q)
	}
	return plan, fits, err
}

// planned plans a gang and sets the answer.
func (q posed) planned(cluster *placement.Cluster, gang *placement.Gang) (*placement.Plan, bool, error) {
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
		q.Judgements, q.Cut = nil, fmt.Sprintf("filters refused more than %d places", format.MaxJudgements)
	}
	return plan, fits, err
}

// PlanWithout implements filters.Plans: it keeps the question if the gang fits.
func (r *Questions) PlanWithout(cluster *placement.Cluster, gang *placement.Gang) (*placement.Plan, bool, error) {
	if r == nil {
		return cluster.Plan(gang)
	}
	q := r.question(cluster, format.Plan, gang, nil)
	plan, fits, err := q.planned(cluster, gang)
	if fits {
		if r.byPlan == nil {
			r.byPlan = map[*placement.Plan]posed{}
		}
		r.byPlan[plan] = q
	}
	return plan, fits, err
}

// Proposed implements filters.Plans: it keeps the question that a preemption answers which no filter has checked.
func (r *Questions) Proposed(cluster *placement.Cluster, gang *placement.Gang, found *placement.Preemption) {
	if r == nil {
		return
	}
	cluster.Try(func() bool {
		for _, name := range found.Victims {
			cluster.Remove(name)
		}
		q := r.question(cluster, format.Plan, gang, nil)
		q.SetPlan(found.Plan)
		r.byPlan = map[*placement.Plan]posed{found.Plan: q}
		return false
	})
}

// Rank records the order of the nodes for a Pod.
func (r *Questions) Rank(cluster *placement.Cluster, gang *placement.Gang, list []placement.Ranked, except []string) {
	if r == nil {
		return
	}
	q := r.question(cluster, format.Rank, gang, nil)
	q.SetRanked(list, except)
	q.SetSearch(cluster.LastSearch())
	r.add(q)
}

// On records the place of a Pod on one node.
func (r *Questions) On(cluster *placement.Cluster, shape placement.Shape, node string, place *placement.Place, fits bool) {
	if r == nil {
		return
	}
	q := r.question(cluster, format.On, &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}, nil)
	if q.Node = node; fits {
		q.SetPlace(place)
	}
	r.add(q)
}

// judgements is a Checker that notes what another one answers, except that it accepts.
type judgements struct {
	placement.Checker
	calls int
	list  []format.Judgement
	cut   bool
}

// Place implements placement.Checker.
func (j *judgements) Place(role int, node string) placement.Judgement {
	call, answer := j.calls, j.Checker.Place(role, node)
	j.calls++
	switch {
	case answer == placement.Accepted:
	case len(j.list) == format.MaxJudgements:
		j.cut = true
	default:
		j.list = append(j.list, format.Judgement{Call: call, Role: role, Node: node, Judgement: uint8(answer)})
	}
	return answer
}

// Last returns the last question; nil if there is none.
func (r *Questions) Last() *format.Question {
	if !r.any() {
		return nil
	}
	return r.list[len(r.list)-1]
}

// Ask writes questions into a decision, and where the journal stood at the first of them: where it stands now if there
// are none.
func (r *Recorder) Ask(d *format.Decision, questions *Questions) {
	at := r.Position()
	if questions.any() {
		d.Asked, at = questions.list, questions.at
	}
	d.After, d.Digest = at.After, at.Digest.String()
}

// DecidePreemption writes the question that a preemption answers into a decision, instead of the others.
func (r *Questions) DecidePreemption(d *format.Decision, plan *placement.Plan) {
	if r == nil {
		return
	}
	if q, known := r.byPlan[plan]; known {
		d.Asked, d.After, d.Digest = []*format.Question{q.Question}, q.at.After, q.at.Digest.String()
	}
}
