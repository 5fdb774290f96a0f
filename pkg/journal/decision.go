// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"time"
)

// Outcome is what was decided.
type Outcome string

// The outcomes.
const (
	// Placed means that the Pods got places.
	Placed Outcome = "placed"
	// Waits means that no place was found.
	Waits Outcome = "waits"
	// Queued means that the queue does not let it start.
	Queued Outcome = "queued"
	// Moving means that it waits for places that are kept for it.
	Moving Outcome = "moving"
	// Ranked means that the nodes were ordered for a Pod whose profile chooses the node.
	Ranked Outcome = "ranked"
	// Preempts means that Pods were told to leave.
	Preempts Outcome = "preempts"
	// Invalid means that the request is wrong.
	Invalid Outcome = "invalid"
)

// Decision is one decision about a gang, or a Pod in no gang.
type Decision struct {
	// Number numbers the decisions, also over restarts.
	Number int       `json:"number"`
	Time   time.Time `json:"time"`
	// Subject is the namespace and name of the gang, or of the Pod, whose UID is that of the Pod whose turn it was.
	Subject string `json:"subject"`
	UID     string `json:"uid"`
	// Gang is true for a gang, Pods is how many Pods wanted a place, and Need how many had to get one.
	Gang     bool  `json:"gang,omitempty"`
	Pods     int   `json:"pods"`
	Need     int   `json:"need"`
	Priority int32 `json:"priority,omitempty"`

	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why"`
	// Places are those that were given, Victims the Pods that have to leave.
	Places  []Seat   `json:"places,omitempty"`
	Victims []Victim `json:"victims,omitempty"`
	// Refused is what kube-scheduler's filters refused, in a sentence, and Refusals by which nodes, at most
	// MaxRefusals.
	Refused  string    `json:"refused,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Claimed are nodes that were kept for others, at most MaxClaimed.
	Claimed []string `json:"claimed,omitempty"`

	// Run is the process of the scheduler, After the number of the last change before the decision, and Digest the
	// digest of the cluster then.
	Run    string `json:"run"`
	After  uint64 `json:"after"`
	Digest string `json:"digest"`
	// Asked are the questions to the engine, in order. The first that fits decided.
	Asked []*Question `json:"asked,omitempty"`
	// Microseconds is how long it took.
	Microseconds int64 `json:"microseconds"`
}

// validate returns what is wrong with a decision that was read, as far as nothing else finds it.
func (d *Decision) validate() error {
	if d.Number < 1 {
		return fmt.Errorf("number: must be at least 1, is %d", d.Number)
	}
	for i, q := range d.Asked {
		if q == nil {
			continue // it can't be judged
		}
		if err := q.validate(); err != nil {
			return fmt.Errorf("asked[%d]: %w", i, err)
		}
	}
	return nil
}

// The most that a decision records of some lists, so that no line is very long.
const (
	MaxRefusals = 50
	MaxClaimed  = 50
	// MaxRanked is how many of the best nodes of a Ranked decision are recorded.
	MaxRanked = 8
	// MaxExcept is how many nodes a question may leave out, MaxTrial how many changes may have been tried with it, and
	// MaxJudgements how many refusals of filters it may have. With more it can't be asked again.
	MaxExcept     = 2000
	MaxTrial      = 1000
	MaxJudgements = 2000
)

// Seat is the place of a Pod.
type Seat struct {
	// Pod is the namespace and name.
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	GPUs    []int  `json:"gpus,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// Victim is a Pod that has to leave.
type Victim struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// Refusal is why filters refused a node.
type Refusal struct {
	Node   string `json:"node"`
	Plugin string `json:"plugin,omitempty"`
	Reason string `json:"reason"`
}

// Kind is what a question is about.
type Kind string

// The kinds.
const (
	// Plan asks for places of a gang.
	Plan Kind = "plan"
	// Rank asks for the order of the nodes for a Pod.
	Rank Kind = "rank"
	// On asks for the place of a Pod on one node.
	On Kind = "on"
)

// Question is a question to the engine, and its answer.
type Question struct {
	Kind Kind `json:"kind"`
	// After is the number of the last change before it.
	After uint64 `json:"after"`
	Roles []Role `json:"roles"`
	// Level, Required and Within are those of placement.Gang.
	Level    int    `json:"level,omitempty"`
	Required bool   `json:"required,omitempty"`
	Within   string `json:"within,omitempty"`
	// Except are nodes that can't be used. With Only, all others can't either.
	Except []string `json:"except,omitempty"`
	Only   []string `json:"only,omitempty"`
	// Node is the one that On asks about.
	Node string `json:"node,omitempty"`
	// Trial is what was tried, in order.
	Trial []Trial `json:"trial,omitempty"`
	// Judgements are those of kube-scheduler's filters that were not to accept.
	Judgements []Judgement `json:"judgements,omitempty"`
	// Cut says what was too much to be recorded, so that it can't be asked again.
	Cut string `json:"cut,omitempty"`

	// Nodes is how many nodes were looked at for the first Pod, and Room how many of them had room for it.
	Nodes int `json:"nodes"`
	Room  int `json:"room"`
	// Fits is the answer, Places and Domains are those of the plan.
	Fits    bool     `json:"fits"`
	Places  []Place  `json:"places,omitempty"`
	Domains []string `json:"domains,omitempty"`
	// Best are the first of the Ranked nodes.
	Best   []Candidate `json:"best,omitempty"`
	Ranked int         `json:"ranked,omitempty"`
}

// validate returns what is wrong with the answer to a question.
func (q *Question) validate() error {
	if q.Kind == Rank && q.Fits && len(q.Best) == 0 {
		return errors.New("best: is missing: there is room on some node")
	}
	for i := range q.Places {
		if role := q.Places[i].Role; role < 0 || role >= len(q.Roles) {
			return fmt.Errorf("places[%d]: role: there is no role %d", i, role)
		}
	}
	return nil
}

// Role is members of a gang that need the same.
type Role struct {
	Shape *Shape `json:"shape"`
	Min   int    `json:"min"`
	Max   int    `json:"max"`
}

// Trial is a Pod that was placed on trial, or one that was removed.
type Trial struct {
	Placed  *Pod   `json:"placed,omitempty"`
	Removed string `json:"removed,omitempty"`
}

// Judgement is an answer of the filters.
type Judgement struct {
	// Call is the number of the call, from 0, that asked for it.
	Call int    `json:"call"`
	Role int    `json:"role"`
	Node string `json:"node"`
	// Judgement is that of placement.
	Judgement uint8 `json:"judgement"`
}

// Place is the place of a member of a role, and its price.
type Place struct {
	Role    int     `json:"role"`
	Node    string  `json:"node"`
	GPUs    []int   `json:"gpus,omitempty"`
	Percent int     `json:"percent,omitempty"`
	Cost    float64 `json:"cost"`
}

// Candidate is a node and its price.
type Candidate struct {
	Node string  `json:"node"`
	Cost float64 `json:"cost"`
}
