// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import "fmt"

// Explained is a decision with what the engine says about it.
type Explained struct {
	*Decision
	// State is the cluster right before it.
	State *State `json:"-"`
	// Candidates are the cheapest nodes for the first Pod, the best first, of All that had room for it.
	Candidates []Candidate `json:"candidates,omitempty"`
	All        int         `json:"all"`
	// Verified is true if the cluster has the digest that the decision says, and Problem why there is no more to say.
	Verified bool   `json:"verified"`
	Problem  string `json:"problem,omitempty"`
}

// Explain returns a decision with the nodes that it could choose from, and their prices by the recorded policy.
func (j *Journal) Explain(number, most int) (*Explained, error) {
	d, err := j.Decision(number)
	if err != nil {
		return nil, err
	}
	explained := &Explained{Decision: d}
	if explained.State, err = j.Before(number); err != nil {
		explained.Problem = err.Error()
		return explained, nil //nolint:nilerr // the decision can be shown nevertheless
	}
	if explained.Verified = explained.State.Digest == d.Digest; !explained.Verified {
		explained.Problem = "the journal is damaged: the cluster does not match that of the decision"
		return explained, nil
	}
	if len(d.Asked) == 0 || unjudged(d) != "" {
		return explained, nil
	}
	if err := j.candidates(explained, most); err != nil {
		explained.Problem = err.Error()
	}
	return explained, nil
}

// candidates ranks the nodes for the first Pod of the question that decided.
func (j *Journal) candidates(explained *Explained, most int) error {
	s, err := j.of(explained.Decision)
	if err != nil {
		return err
	}
	r, err := newReplica(s, s.Policy)
	if err != nil {
		return err
	}
	q := *decisive(explained.Asked)
	if err := r.advance(q.After); err != nil {
		return fmt.Errorf("the journal is damaged: %w", err)
	}
	gang, err := r.gangOf(&q)
	if err != nil {
		return err
	}
	role := 0
	if len(q.Places) > 0 && q.Places[0].Role < len(gang.Roles) {
		role = q.Places[0].Role
	}
	return r.try(&q, func() error {
		answer := &Question{}
		ranked := r.cluster.Rank(r.cluster.Request(gang.Roles[role].Shape), r.cluster.Root())
		answer.SetRanked(ranked, gang.Except)
		explained.All = answer.Ranked
		explained.Candidates = answer.Best[:min(most, len(answer.Best))]
		return nil
	})
}
