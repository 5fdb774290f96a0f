// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// Move takes a running Pod from one place to another.
type Move struct {
	Pod string
	// Group is the Pod's gang; empty if it is alone. The moves of a gang stand
	// beside each other and are one turn: all its Pods leave, then all arrive,
	// some maybe where they were.
	Group    string
	From, To Place
	// Cost is what the Pod's move costs, the constant for each move included.
	Cost float64
}

// MoveRules say what may be moved and at what cost.
type MoveRules struct {
	// Cost is what it costs to move a Pod, in the caller's unit, at least 0, and
	// whether it may be moved at all. Without it every Pod may, for nothing.
	Cost func(*Pod) (cost float64, movable bool)
	// Group is the gang of a Pod, which moves whole or not at all; empty for a
	// Pod that is alone. Without it every Pod is.
	Group func(*Pod) string
	// Shape is what a Pod asked for. Without it a Pod stays on the model, with the
	// GPU memory and in the pool, if its node is in one, that it has, and on nodes
	// of the same Traits.
	Shape func(*Pod) Shape
	// Level is the level of domains that a gang has to be in one of; 0 for none.
	// Without it gangs may be spread.
	Level func(group string) int
	// MaxMoves is how many Pods may be moved, MaxCost what that may cost; 0 is
	// no limit.
	MaxMoves int
	MaxCost  float64
	// PerMove is added to the cost of each Pod that is moved.
	PerMove float64
}

// allows reports whether so many moves at such a cost are within the limits.
func (r *MoveRules) allows(moves int, cost float64) bool {
	return (r.MaxMoves <= 0 || moves <= r.MaxMoves) && (r.MaxCost <= 0 || cost <= r.MaxCost+tie)
}

// Turns splits moves into those that are carried out together: those of a gang,
// and each of the others by itself.
func Turns(moves []Move) [][]Move {
	var turns [][]Move
	for from := 0; from < len(moves); {
		to := from + 1
		for to < len(moves) && moves[from].Group != "" && moves[to].Group == moves[from].Group {
			to++
		}
		turns = append(turns, moves[from:to:to])
		from = to
	}
	return turns
}

// Carry carries moves out, turn by turn. A Pod only moves to what is free when
// its turn comes; if it is not, or the Pod is no longer where it was, Carry stops
// with an error, and the moves before that are done.
func (c *Cluster) Carry(moves []Move) error {
	for _, turn := range Turns(moves) {
		if err := c.carry(turn); err != nil {
			return err
		}
	}
	return nil
}

// carry carries one turn out, or nothing of it.
func (c *Cluster) carry(turn []Move) (err error) {
	for i := range turn {
		if err := c.isAt(&turn[i]); err != nil {
			return err
		}
	}
	c.Try(func() bool {
		for i := range turn {
			c.Remove(turn[i].Pod)
		}
		for i := range turn {
			move := &turn[i]
			n := c.nodes[move.To.Node]
			if n == nil || !n.has(&move.To.Use) {
				err = fmt.Errorf("Pod %s: node %s no longer has what it needs", move.Pod, move.To.Node)
				return false
			}
			if err = c.Place(Pod{Name: move.Pod, Node: move.To.Node, Use: move.To.Use}); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

// isAt is an error if a Pod is not where a move takes it from.
func (c *Cluster) isAt(move *Move) error {
	pod := c.pods[move.Pod]
	if pod == nil || pod.Node != move.From.Node || !sameCards(&pod.Use, &move.From.Use) {
		return fmt.Errorf("Pod %s is no longer on node %s as planned", move.Pod, move.From.Node)
	}
	return nil
}

func sameCards(a, b *Use) bool {
	return a.Percent == b.Percent && slices.Equal(a.GPUs, b.GPUs)
}

// has reports whether a node has just these cards, and the rest, free.
func (n *node) has(use *Use) bool {
	if n.Closed || n.slots < 1 || n.cpu < use.CPU || n.memory < use.Memory {
		return false
	}
	for _, gpu := range use.GPUs {
		if gpu >= len(n.free) || n.GPUs[gpu].Broken || int(n.free[gpu]) < use.Percent {
			return false
		}
	}
	return true
}
