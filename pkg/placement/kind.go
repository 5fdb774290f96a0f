// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// kind is what nodes have in common that differ only in the Pods that they run.
type kind struct {
	id    int
	cpu   int64
	slots int
	// memory and others are what each of the nodes has at least, most is how much more they
	// may have, and unequal is true if that is anything.
	memory  int64
	others  Amounts
	most    slack
	unequal bool
	model   string
	pool    string
	traits  string
	closed  bool
	gpus    int
	// cells are the NVLink groups, those of equal make next to each other; GPUs without a
	// group are one cell. Positions number the cards of all cells.
	cells []cell
	// memories are the GPUs' memories by position, in MiB.
	memories []int64
	// percent is the free percentage of all GPUs of its nodes, but for those that are hidden.
	percent int
	// uniform is true if every card has the same memory and all are in one cell.
	uniform bool
	// admissions caches the results of selectors, by their id.
	admissions []admission
	// scores caches those of preferences, by their id.
	scores []score
}

// cell is a range of positions.
type cell struct {
	from, to int
	// alike is the number of cells of the same make from this one on.
	alike int
	// linked is true for an NVLink group.
	linked bool
}

// layout maps a node's cards to positions: the kind, and the index of the card at each
// position when all are free.
type layout struct {
	kind  *kind
	cards []int
}

// layoutOf returns the layout of a node.
func (c *Cluster) layoutOf(node *Node) layout {
	groups := groupsOf(node.GPUs)
	k := kind{
		cpu: node.CPU, slots: node.Slots, model: node.Model, pool: node.Pool, traits: node.Traits,
		closed: node.Closed, gpus: len(node.GPUs),
	}
	k.setLeast(node.Memory, node.Others)
	var cards []int
	for i, group := range groups {
		k.cells = append(k.cells, cell{from: len(cards), to: len(cards) + len(group), alike: alike(node.GPUs, groups[i:]), linked: node.GPUs[group[0]].Group >= 0})
		cards = append(cards, group...)
	}
	for _, card := range cards {
		k.memories = append(k.memories, node.GPUs[card].Memory)
	}
	k.uniform = len(groups) <= 1 && (len(k.memories) == 0 || slices.Min(k.memories) == slices.Max(k.memories))
	return layout{kind: c.internKind(&k), cards: cards}
}

// groupsOf returns the indices of the GPUs of each group, the largest groups first, with
// groups of equal make, and GPUs of equal memory, next to each other.
func groupsOf(gpus []GPU) [][]int {
	byGroup := map[int][]int{}
	for index := range gpus {
		group := max(gpus[index].Group, -1)
		byGroup[group] = append(byGroup[group], index)
	}
	groups := make([][]int, 0, len(byGroup))
	for _, group := range byGroup {
		slices.SortFunc(group, func(a, b int) int { return cmp.Or(cmp.Compare(gpus[a].Memory, gpus[b].Memory), cmp.Compare(a, b)) })
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b []int) int { return cmp.Or(compareMake(gpus, a, b), cmp.Compare(a[0], b[0])) })
	return groups
}

// compareMake orders groups by their make: number of GPUs, NVLink, and memories.
func compareMake(gpus []GPU, a, b []int) int {
	linked := func(group []int) int { return min(gpus[group[0]].Group, 0) }
	memory := func(x, y int) int { return cmp.Compare(gpus[x].Memory, gpus[y].Memory) }
	return cmp.Or(-cmp.Compare(len(a), len(b)), cmp.Compare(linked(a), linked(b)), slices.CompareFunc(a, b, memory))
}

// alike counts the leading groups that are of the same make as the first.
func alike(gpus []GPU, groups [][]int) int {
	count := 1
	for count < len(groups) && compareMake(gpus, groups[0], groups[count]) == 0 {
		count++
	}
	return count
}

// internKind returns the one kind that is equal to k.
func (c *Cluster) internKind(k *kind) *kind {
	key := c.key[:0]
	for _, number := range []int64{k.cpu, k.memory, k.most.memory, int64(k.slots), int64(len(k.cells))} {
		key = binary.AppendVarint(key, number)
	}
	for _, cell := range k.cells {
		key = binary.AppendVarint(key, int64(cell.to))
		key = appendBool(key, cell.linked)
	}
	for _, memory := range k.memories {
		key = binary.AppendVarint(key, memory)
	}
	key = k.others.appendKey(appendBool(key, k.closed))
	for _, spread := range k.most.others {
		key = binary.AppendVarint(key, spread)
	}
	for _, text := range []string{k.model, k.pool, k.traits} {
		key = appendText(key, text)
	}
	c.key = key
	if known := c.kinds[string(key)]; known != nil {
		return known
	}
	if len(c.kinds) >= c.sweepKindsAt {
		c.sweepKinds()
	}
	k.id = c.kindIDs
	c.kindIDs++
	c.kinds[string(key)] = k
	return k
}

// minKinds is the least number of kinds at which there is a sweep.
const minKinds = 1 << 10

// sweepKinds drops kinds without nodes: traits may keep changing as long as a cluster
// lives.
func (c *Cluster) sweepKinds() {
	used := make(map[*kind]bool, len(c.nodes))
	for _, n := range c.nodes {
		used[n.layout.kind] = true
	}
	maps.DeleteFunc(c.kinds, func(_ string, k *kind) bool { return !used[k] })
	c.sweepKindsAt = max(minKinds, 2*len(c.kinds))
}

// appendText appends a text with its length, so that different sequences of texts differ.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

func appendBool(key []byte, value bool) []byte {
	if value {
		return append(key, 1)
	}
	return append(key, 0)
}
