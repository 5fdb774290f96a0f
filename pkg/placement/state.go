// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"maps"
	"slices"
)

// State is the free capacity of a node. Nodes of the same kind with the same free
// capacity share a State, so that a result for one of them holds for all. They may have
// different amounts of memory and other resources beyond those of the State: see slack.
type State struct {
	kind   *kind
	cpu    int64
	memory int64
	slots  int
	// others are the free amounts of the kind's other resources, in their order.
	others []int64
	// free is the free percentage of each card, by position: within a cell and a memory
	// size the fullest cards first, and among cells of the same make the fuller first. It
	// is 0 for a broken card.
	free []int8
	// percent is the sum of free, whole the number of completely free cards.
	percent, whole int

	// offers caches this State's offer for each request, by the request's id.
	offers []offer
	// value is cached here by the policy.
	value Value
	// users counts the domains that have nodes in this State.
	users int
}

// Value caches a number that a policy derives from a State.
type Value struct {
	Epoch  uint64
	Number float64
}

// Accepts reports whether a request may run on the node's model and its selector admits
// the node. A request that names nodes says nothing about others: it is not accepted.
func (s *State) Accepts(r *Request) bool {
	return !r.named() && r.accepts(s.kind.model) && s.kind.admits(r) == Fits
}

// Suits reports whether nodes of this kind are such as a request asks for: in its pool, of its models and admitted by
// its selector, whatever their names are and how much they have.
func (s *State) Suits(r *Request) bool {
	return (r.Pool == "" || r.Pool == s.kind.pool) && r.accepts(s.kind.model) && s.kind.admits(r) == Fits
}

// Pool returns the node's pool.
func (s *State) Pool() string { return s.kind.pool }

// Kind numbers what the node has in common with nodes that differ from it only in the Pods that
// they run.
func (s *State) Kind() int { return s.kind.id }

// KindPercent returns the free percentage of all GPUs of the nodes of this kind.
func (s *State) KindPercent() int { return s.kind.percent }

// TakesEmpty reports whether some node of this kind could take a request if it were empty. A
// request that names nodes says nothing about others: no kind takes it.
func (s *State) TakesEmpty(r *Request) bool {
	return !r.named() && s.kind.fit(r, &s.kind.most) == Fits
}

// CPU returns the free CPU, in milli-cores.
func (s *State) CPU() int64 { return s.cpu }

// CPUCapacity returns the CPU of the empty node, in milli-cores.
func (s *State) CPUCapacity() int64 { return s.kind.cpu }

// Memory returns the memory that is free on each of the nodes at least, in MiB.
func (s *State) Memory() int64 { return s.memory }

// mostDevices bounds what State.Devices counts of a resource: of one that is not counted, each node
// has MaxAmount.
const mostDevices = 1 << 10

// Devices returns how many devices are free on each of the nodes at least, of all the kinds of
// devices besides GPUs that a request asks for; asked is false if it asks for none.
func (s *State) Devices(r *Request) (free int, asked bool) {
	for i := range r.Others {
		if r.Others[i].isDevice() {
			asked = true
			if at, none := s.kind.index(r.Others[i].Resource, 0); !none {
				free += int(min(max(s.others[at], 0), mostDevices))
			}
		}
	}
	return free, asked
}

// Model returns the model of the node's GPUs.
func (s *State) Model() string { return s.kind.model }

// Closed reports whether the node is closed: see Node.Closed.
func (s *State) Closed() bool { return s.kind.closed }

// Cards returns the number of GPUs of the node.
func (s *State) Cards() int { return s.kind.gpus }

// Free returns the free percentage of each card. It must not be modified.
func (s *State) Free() []int8 { return s.free }

// Percent returns the sum of Free.
func (s *State) Percent() int { return s.percent }

// Whole returns the number of completely free cards.
func (s *State) Whole() int { return s.whole }

// idle reports whether a node has GPUs and all of them are free.
func (s *State) idle() bool { return s.whole > 0 && s.whole == s.kind.gpus }

// Cached returns a value for the policy's own use.
func (s *State) Cached() *Value { return &s.value }

// appendStateKey appends the key that identifies a State.
func appendStateKey(key []byte, k *kind, left rest, free []int8) []byte {
	key = binary.AppendVarint(key, int64(k.id))
	key = binary.AppendVarint(key, left.cpu)
	key = binary.AppendVarint(key, left.memory)
	key = binary.AppendVarint(key, int64(left.slots))
	for _, amount := range left.others {
		key = binary.AppendVarint(key, amount)
	}
	for _, percent := range free {
		key = append(key, byte(percent)) //nolint:gosec // not negative
	}
	return key
}

// rest is what is free of a node besides GPUs.
type rest struct {
	cpu, memory int64
	slots       int
	others      []int64
}

// state returns the one State with this content. free must be sorted; it and the other
// amounts are copied.
func (c *Cluster) state(k *kind, left rest, free []int8) *State {
	c.key = appendStateKey(c.key[:0], k, left, free)
	if known := c.states[string(c.key)]; known != nil {
		return known
	}
	s := &State{kind: k, cpu: left.cpu, memory: left.memory, slots: left.slots, others: slices.Clone(left.others), free: slices.Clone(free)}
	for _, percent := range free {
		s.percent += int(percent)
		if percent == Card {
			s.whole++
		}
	}
	if len(c.states) >= c.sweepAt {
		c.sweep()
	}
	c.states[string(c.key)] = s
	return s
}

// sweep drops States without nodes. As the threshold grows with the States in use, sweeps
// are rare.
func (c *Cluster) sweep() {
	maps.DeleteFunc(c.states, func(_ string, s *State) bool { return s.users == 0 })
	c.sweepAt = max(minStates, 4*len(c.states))
}

// minStates is the least number of States at which there is a sweep.
const minStates = 1 << 14

// sortCards sorts cards into a State's order. order has the cards of a node by position
// and is sorted in place; free is the free percentage of each card.
func (k *kind) sortCards(order []int, free []int8) {
	for i := range k.cells {
		k.sortCell(order, free, k.cells[i])
	}
	for i := 0; i < len(k.cells); i += k.cells[i].alike {
		k.sortCells(order, free, k.cells[i:i+k.cells[i].alike])
	}
}

// sortCell sorts the cards of equal memory in a cell by their free percentage, and equal
// ones by index.
func (k *kind) sortCell(order []int, free []int8, cell cell) {
	for from := cell.from; from < cell.to; {
		to := from + 1
		for to < cell.to && k.memories[to] == k.memories[from] {
			to++
		}
		insertionSort(order[from:to], free)
		from = to
	}
}

// insertionSort is stable and does not allocate; nodes have few cards.
func insertionSort(order []int, free []int8) {
	for i := 1; i < len(order); i++ {
		for j := i; j > 0 && less(order[j], order[j-1], free); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
}

func less(a, b int, free []int8) bool {
	return free[a] < free[b] || (free[a] == free[b] && a < b)
}

// sortCells sorts cells of the same make by the free percentages of their cards.
func (k *kind) sortCells(order []int, free []int8, cells []cell) {
	size := cells[0].to - cells[0].from
	at := func(i int) []int { return order[cells[i].from : cells[i].from+size] }
	for i := 1; i < len(cells); i++ {
		for j := i; j > 0 && compareCells(at(j), at(j-1), free) < 0; j-- {
			for n := range size {
				at(j)[n], at(j - 1)[n] = at(j - 1)[n], at(j)[n]
			}
		}
	}
}

func compareCells(a, b []int, free []int8) int {
	for i := range a {
		if d := int(free[a[i]]) - int(free[b[i]]); d != 0 {
			return d
		}
	}
	return a[0] - b[0]
}

func oneIf(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
