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
	// Group is the Pod's gang; empty if it has none. The moves of a gang are consecutive
	// and form one turn: all its Pods leave, then all arrive, some maybe at their old
	// places.
	Group    string
	From, To Place
	// Cost is the cost of the Pod's move, including the constant for each move.
	Cost float64
}

// MoveRules determine what may be moved and at what cost.
type MoveRules struct {
	// Cost returns the cost of moving a Pod, in the caller's unit, at least 0, and
	// whether it may be moved at all. If it is nil, every Pod may be moved at no cost.
	Cost func(*Pod) (cost float64, movable bool)
	// Group returns the gang of a Pod, which moves as a whole or not at all; empty for a
	// Pod without a gang. If it is nil, no Pod has one.
	Group func(*Pod) string
	// Shape returns what a Pod requested. If it is nil, a Pod keeps its GPU model, its
	// GPU memory and its node's pool, if any, and stays on nodes with the same Traits.
	Shape func(*Pod) Shape
	// Level returns the level at which a gang has to be in a single domain; 0 for none.
	// If it is nil, gangs may be spread.
	Level func(group string) int
	// MaxMoves limits how many Pods are moved, MaxCost their total cost; 0 is no limit.
	MaxMoves int
	MaxCost  float64
	// PerMove is added to the cost of each Pod that is moved.
	PerMove float64
}

// allows reports whether a number of moves and their cost are within the limits.
func (r *MoveRules) allows(moves int, cost float64) bool {
	return (r.MaxMoves <= 0 || moves <= r.MaxMoves) && (r.MaxCost <= 0 || cost <= r.MaxCost+tie)
}

// Turns splits moves into those that are carried out together: those of a gang, and each
// of the others by itself.
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

// Carry applies moves, turn by turn. A Pod only moves to resources that are free when its
// turn comes; if they are not, or the Pod is no longer at its old place, Carry stops with
// an error, and the turns before stay applied.
func (c *Cluster) Carry(moves []Move) error {
	for _, turn := range Turns(moves) {
		if err := c.carry(turn); err != nil {
			return err
		}
	}
	return nil
}

// carry applies one turn, all or nothing.
func (c *Cluster) carry(turn []Move) (err error) {
	for i := range turn {
		if err := c.checkOrigin(&turn[i]); err != nil {
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
			if n == nil || !n.hasFree(&move.To.Use) {
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

// checkOrigin returns an error if a Pod is not where a move takes it from.
func (c *Cluster) checkOrigin(move *Move) error {
	pod := c.pods[move.Pod]
	if pod == nil || pod.Node != move.From.Node || !sameCards(&pod.Use, &move.From.Use) {
		return fmt.Errorf("Pod %s is no longer on node %s as planned", move.Pod, move.From.Node)
	}
	return nil
}

func sameCards(a, b *Use) bool {
	return a.Percent == b.Percent && slices.Equal(a.GPUs, b.GPUs)
}

// hasFree reports whether a node has exactly these cards, and the other resources, free.
func (n *node) hasFree(use *Use) bool {
	if n.Closed || n.slots < 1 || n.cpu < use.CPU || n.memory < use.Memory || n.layout.kind.short(n.others, &slack{}, use.Others) != "" {
		return false
	}
	for _, gpu := range use.GPUs {
		if gpu >= len(n.free) || n.GPUs[gpu].Broken || int(n.free[gpu]) < use.Percent {
			return false
		}
	}
	return true
}
