// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// verify checks a log against the files alone: every Pod is in it, in order, on a node
// and cards that have room for it, or there is no room anywhere. It shares no code with
// the placement.
func verify(nodes []placement.Node, pods []dataset.Pod, records []record) error {
	if len(records) != len(pods) {
		return fmt.Errorf("the log has %d lines for %d Pods", len(records), len(pods))
	}
	left := newLedgers(nodes)
	for i := range records {
		if err := verifyRecord(left, &pods[i], &records[i]); err != nil {
			return fmt.Errorf("line %d of the log: Pod %s: %w", i+1, pods[i].Name, err)
		}
	}
	return nil
}

func verifyRecord(left map[string]*ledger, p *dataset.Pod, r *record) error {
	if r.Pod != p.Name {
		return fmt.Errorf("the log has Pod %q instead", r.Pod)
	}
	if r.Node == "" {
		for name, l := range left {
			if l.hasRoom(&p.Shape) {
				return fmt.Errorf("was dropped, but fits on node %s", name)
			}
		}
		return nil
	}
	l := left[r.Node]
	if l == nil {
		return fmt.Errorf("there is no node %q", r.Node)
	}
	if err := l.take(&p.Shape, r); err != nil {
		return fmt.Errorf("node %s: %w", r.Node, err)
	}
	return nil
}

// ledger is the free resources of a node.
type ledger struct {
	cpu, memory int64
	slots       int
	model       string
	cards       []int // percent
}

func newLedgers(nodes []placement.Node) map[string]*ledger {
	left := make(map[string]*ledger, len(nodes))
	for i := range nodes {
		left[nodes[i].Name] = newLedger(&nodes[i])
	}
	return left
}

func newLedger(n *placement.Node) *ledger {
	l := &ledger{cpu: n.CPU, memory: n.Memory, slots: n.Slots, model: n.Model}
	for range n.GPUs {
		l.cards = append(l.cards, placement.Card)
	}
	return l
}

// allows reports whether everything but the cards suffices.
func (l *ledger) allows(s *placement.Shape) bool {
	model := s.Percent() == 0 || len(s.Models) == 0 || slices.Contains(s.Models, l.model)
	return model && l.cpu >= s.CPU && l.memory >= s.Memory && l.slots > 0
}

func (l *ledger) hasRoom(s *placement.Shape) bool {
	if !l.allows(s) {
		return false
	}
	cards, percent := wanted(s)
	for _, free := range l.cards {
		if free >= percent {
			cards--
		}
	}
	return cards <= 0
}

// wanted returns how many cards a shape needs and how much of each.
func wanted(s *placement.Shape) (cards, percent int) {
	switch {
	case s.Share > 0:
		return 1, s.Share
	case s.GPUs > 0:
		return s.GPUs, placement.Card
	}
	return 0, 0
}

// take allocates what a record has, if it is what the shape needs and is free.
func (l *ledger) take(s *placement.Shape, r *record) error {
	cards, percent := wanted(s)
	switch {
	case !l.allows(s):
		return fmt.Errorf("CPU, memory, slots or model do not fit: %+v", *l)
	case len(r.GPUs) != cards || r.Percent != percent:
		return fmt.Errorf("the Pod needs %d %% of %d GPUs, not %d %% of %v", percent, cards, r.Percent, r.GPUs)
	}
	for i, card := range r.GPUs {
		if card < 0 || card >= len(l.cards) || slices.Contains(r.GPUs[:i], card) {
			return fmt.Errorf("GPUs %v: the node has the GPUs 0 to %d, each once", r.GPUs, len(l.cards)-1)
		}
		if l.cards[card] < percent {
			return fmt.Errorf("GPU %d has %d %% left, not %d %%", card, l.cards[card], percent)
		}
		l.cards[card] -= percent
	}
	l.cpu -= s.CPU
	l.memory -= s.Memory
	l.slots--
	return nil
}

// giveBack undoes take.
func (l *ledger) giveBack(s *placement.Shape, r *record) {
	for _, card := range r.GPUs {
		l.cards[card] += r.Percent
	}
	l.cpu += s.CPU
	l.memory += s.Memory
	l.slots++
}
