// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Options are how a journal is replayed.
type Options struct {
	// Policy decides; empty for the recorded one.
	Policy string
}

// Report is what a replay has shown.
type Report struct {
	// Policy is the one that decided, Recorded the one that had decided.
	Policy   string `json:"policy"`
	Recorded string `json:"recorded"`
	// From and To are the times of the first and the last decision.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Decisions is how many there are: Same, Different or not judged.
	Decisions int `json:"decisions"`
	Same      int `json:"same"`
	Different int `json:"different"`
	// NotJudged is how many can't be judged, by the reason.
	NotJudged map[string]int `json:"notJudged,omitempty"`
	// Lost is how many decisions are missing between others.
	Lost int `json:"lost,omitempty"`
	// Damaged is how many decisions can't be judged because the journal's cluster is not the scheduler's.
	Damaged     int          `json:"damaged,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is a decision that would have been another one.
type Difference struct {
	Number  int       `json:"number"`
	Time    time.Time `json:"time"`
	Subject string    `json:"subject"`
	// Was is what was decided, and WouldBe what would be, in words.
	Was     string `json:"was"`
	WouldBe string `json:"wouldBe"`
	// More is how much more the other places cost, by the recorded policy's prices; nil if only one of them has a
	// price.
	More *float64 `json:"more,omitempty"`
}

// The reasons why decisions are not judged.
const (
	reasonQueue    = "the queue did not let it start"
	reasonKept     = "its places were kept for it by a MovePlan"
	reasonInvalid  = "the request was wrong"
	reasonRepeated = "an equal request had just found no place, and nothing had become free since"
	reasonCut      = "it depended on more than a journal records"
	reasonMissing  = "the journal lacks what happened before it"
	reasonDamaged  = "the journal is damaged"
)

// replay is a replay in progress.
type replay struct {
	*Journal
	options Options
	report  *Report
	// recorded is the cluster with the recorded policy, and other the same with the one that decides.
	recorded, other *replica
	// broken is why the rest of a segment can't be judged.
	broken map[*segment]error
}

// Replay asks the engine all recorded questions again, each in the cluster as it was.
func (j *Journal) Replay(options Options) (*Report, error) {
	r := &replay{Journal: j, options: options, broken: map[*segment]error{}, report: &Report{NotJudged: map[string]int{}, Lost: j.lost, Recorded: j.segments[len(j.segments)-1].Policy}}
	if r.report.Policy = options.Policy; options.Policy == "" {
		r.report.Policy = r.report.Recorded
	}
	if err := CheckPolicy(r.report.Policy); err != nil {
		return nil, err
	}
	for i := range j.decisions {
		d := &j.decisions[i]
		if i == 0 {
			r.report.From = d.Time
		}
		r.report.To = d.Time
		r.report.Decisions++
		r.judge(d)
	}
	return r.report, nil
}

// judge counts a decision.
func (r *replay) judge(d *Decision) {
	if reason := unjudged(d); reason != "" {
		r.report.NotJudged[reason]++
		return
	}
	s, err := r.of(d)
	if err != nil {
		r.report.NotJudged[reasonMissing]++
		return
	}
	if slices.ContainsFunc(d.Asked, func(q *Question) bool { return q.After > s.last || q.After < d.After }) {
		r.report.NotJudged[reasonMissing]++ // the segment ended in the middle of the decision
		return
	}
	difference, err := r.compare(s, d)
	switch {
	case err != nil:
		r.report.Damaged++
		r.report.NotJudged[reasonDamaged+": "+err.Error()]++
	case difference != nil:
		r.report.Different++
		r.report.Differences = append(r.report.Differences, *difference)
	default:
		r.report.Same++
	}
}

// unjudged returns why a decision can't be judged; empty if it can.
func unjudged(d *Decision) string {
	if slices.ContainsFunc(d.Asked, func(q *Question) bool { return q == nil || q.Cut != "" }) {
		return reasonCut
	}
	if len(d.Asked) > 0 {
		return ""
	}
	switch d.Outcome {
	case Queued:
		return reasonQueue
	case Moving, Placed, Ranked, Preempts:
		return reasonKept
	case Invalid:
		return reasonInvalid
	default:
		return reasonRepeated
	}
}

// compare asks the questions of a decision again. It returns nil if the answer is the same.
func (r *replay) compare(s *segment, d *Decision) (*Difference, error) {
	if err := r.broken[s]; err != nil {
		return nil, err
	}
	if err := r.goTo(s, d); err != nil {
		r.broken[s] = err
		return nil, err
	}
	was := decisive(d.Asked)
	var is *Question
	at := 0
	for i, q := range d.Asked {
		if err := r.advance(q.After); err != nil {
			return nil, err
		}
		answer, err := r.other.ask(q)
		if err != nil {
			return nil, err
		}
		if is, at = answer, i; answer.Fits {
			break
		}
	}
	if r.same(was, is, d.Asked[at]) {
		return nil, nil //nolint:nilnil // there is no difference
	}
	return r.difference(d, was, is, d.Asked[at])
}

// decisive returns the question that decided: the first that fits, else the last.
func decisive(asked []*Question) *Question {
	for _, q := range asked {
		if q.Fits {
			return q
		}
	}
	return asked[len(asked)-1]
}

// goTo brings the clusters to the state before a decision, and verifies it.
func (r *replay) goTo(s *segment, d *Decision) error {
	if r.recorded == nil || r.recorded.segment != s || r.recorded.after > d.After {
		if err := r.begin(s); err != nil {
			return err
		}
	}
	if err := r.advance(d.After); err != nil {
		return err
	}
	if got := r.recorded.digest.String(); got != d.Digest {
		return errors.New("the cluster does not match that of the decision")
	}
	return nil
}

func (r *replay) advance(after uint64) error {
	if err := r.recorded.advance(after); err != nil {
		return err
	}
	if r.other == r.recorded {
		return nil
	}
	return r.other.advance(after)
}

// begin begins with the checkpoint of a segment.
func (r *replay) begin(s *segment) (err error) {
	r.recorded, r.other = nil, nil
	recorded, err := newReplica(s, s.Policy)
	if err != nil {
		return err
	}
	if got := recorded.digest.String(); got != s.Digest {
		return fmt.Errorf("the checkpoint after change %d is not complete", s.Changes)
	}
	other := recorded
	if r.report.Policy != s.Policy {
		if other, err = newReplica(s, r.report.Policy); err != nil {
			return err
		}
	}
	r.recorded, r.other = recorded, other
	return nil
}

// same reports whether an answer is the recorded one; asked is the question that it answers.
func (r *replay) same(was, is, asked *Question) bool {
	if was.Fits != is.Fits || was.Kind != is.Kind || was.Fits && was != asked {
		return false
	}
	switch {
	case was.Kind != Rank:
		return slices.EqualFunc(sortedPlaces(was.Places), sortedPlaces(is.Places), samePlace)
	case r.other == r.recorded:
		return was.Ranked == is.Ranked && slices.Equal(was.Best, is.Best)
	default:
		return !was.Fits || was.Best[0].Node == is.Best[0].Node
	}
}

// SortedReasons returns the reasons why decisions were not judged, the most frequent first.
func (r *Report) SortedReasons() []string {
	reasons := slices.Sorted(maps.Keys(r.NotJudged))
	slices.SortStableFunc(reasons, func(a, b string) int { return r.NotJudged[b] - r.NotJudged[a] })
	return reasons
}
