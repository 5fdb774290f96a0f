// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import "falldio.github.io/gpu-controller/pkg/placement"

// recorded is a Checker that answers as kube-scheduler's filters did. Asked the same questions in the same order, it
// gives the same answers. To others it refuses the nodes that were refused, and accepts the rest: nobody knows better.
type recorded struct {
	calls   int
	byCall  map[int]*Judgement
	refused map[refusedPlace]placement.Judgement
}

type refusedPlace struct {
	role int
	node string
}

var _ placement.Checker = (*recorded)(nil)

func newRecorded(judgements []Judgement) *recorded {
	c := &recorded{byCall: map[int]*Judgement{}, refused: map[refusedPlace]placement.Judgement{}}
	for i := range judgements {
		one := &judgements[i]
		c.byCall[one.Call] = one
		if judgement := placement.Judgement(one.Judgement); judgement != placement.Exhausted {
			c.refused[refusedPlace{one.Role, one.Node}] = judgement
		}
	}
	return c
}

// Place implements placement.Checker.
func (c *recorded) Place(role int, node string) placement.Judgement {
	call := c.calls
	c.calls++
	if one := c.byCall[call]; one != nil && one.Role == role && one.Node == node {
		return placement.Judgement(one.Judgement)
	}
	if judgement := c.refused[refusedPlace{role, node}]; judgement == placement.NeverAccepted {
		return judgement
	}
	return placement.Accepted
}

// Undo implements placement.Checker.
func (c *recorded) Undo() {}
