// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// AnyModel stands for the GPUs of all models together.
const AnyModel = "*"

// NoQueue is the queue of all that is in none: it has no guarantee, no limit and weight 1.
const NoQueue = ""

// Queue is what is asked for with a GPUQueue.
type Queue struct {
	Name string
	// Parent is the queue that this one is a part of; empty for none.
	Parent string
	// Weight is the queue's part of what its parent has, relative to its siblings; 0 counts as 1.
	Weight int
	// Quotas are by GPU model; that of AnyModel is for all models together, including those that have
	// a quota of their own.
	Quotas map[string]Quota
	// Accepts reports whether Pods of a namespace with these labels may use the queue; nil if
	// none may. Selector says the same in words, "team=vision".
	Accepts  func(namespaceLabels map[string]string) bool
	Selector string
	// Priorities are the PriorityClasses that Pods may have; empty for those of the parent.
	Priorities []string
	// MaxRuntime bounds how long a job may run, and DefaultRuntime is what to plan with for jobs that
	// declare nothing; 0 for none.
	MaxRuntime, DefaultRuntime time.Duration
	// Reclaim is how GPUs beyond the guarantee are taken back; nil for as the parent's are.
	Reclaim *Reclaim
}

// Quota is what a queue gets of a GPU model.
type Quota struct {
	// Guaranteed is what the queue gets whenever it has work for it.
	Guaranteed Amount
	// Limit is what it holds at most; Unlimited for no limit.
	Limit Amount
}

// ReclaimPolicy says for whom borrowed GPUs are taken back.
type ReclaimPolicy string

// For whom borrowed GPUs are taken back.
const (
	// ReclaimAny: for all jobs of queues that are below their guarantee.
	ReclaimAny ReclaimPolicy = "Any"
	// ReclaimLowerPriority: for such jobs of a higher priority.
	ReclaimLowerPriority ReclaimPolicy = "LowerPriority"
	// ReclaimNever: for none.
	ReclaimNever ReclaimPolicy = "Never"
)

// Reclaim is how GPUs that a queue has borrowed are taken back.
type Reclaim struct {
	Policy ReclaimPolicy
	// MinRuntime is how long a job runs at least before it is stopped, and Notice how long it
	// goes on after it was told.
	MinRuntime, Notice time.Duration
}

// Reason is one word for what is wrong with a queue, or with the use of it.
type Reason string

// What can be wrong with a queue.
const (
	// ParentNotFound: the queue's parent does not exist.
	ParentNotFound Reason = "ParentNotFound"
	// ParentCycle: the queue is its own ancestor.
	ParentCycle Reason = "ParentCycle"
	// GuaranteeExceedsParent: the queue's parent is guaranteed less than its children together.
	GuaranteeExceedsParent Reason = "GuaranteeExceedsParent"
)

// Problem is what is wrong, with a sentence for people.
type Problem struct {
	Reason  Reason
	Message string
}

// Tree is the queues with their guarantees and limits. What is wrong with one never
// stops it, or another one:
//
//   - A queue whose parent does not exist, or that is on a cycle of parents, is a root without
//     guarantees: its jobs start and run on within its own limits, and what they hold is borrowed.
//     Its children are not affected among themselves.
//   - If the children of a queue are guaranteed more than the queue itself, each of them gets a part of what the
//     queue is guaranteed, in proportion to its own guarantee.
//
// A Tree does not change, and is safe for concurrent use.
type Tree struct {
	nodes map[string]*node
	// sorted are all nodes, parents before their children, otherwise by name.
	sorted   []*node
	problems map[string]Problem
	// accepting is only a cache.
	accepting acceptances
}

// node is a queue in the tree.
type node struct {
	queue    Queue
	index    int // in Tree.sorted
	parent   *node
	children []*node
	depth    int // 0 for roots
	// guaranteed is what remains of the guarantees after what is wrong with them. That of AnyModel
	// is not less than the others together.
	guaranteed map[string]Amount
}

// NewTree returns the tree of queues. Of several with the same name, the first counts.
func NewTree(queues []Queue) *Tree {
	t := &Tree{nodes: make(map[string]*node, len(queues)+1), problems: map[string]Problem{}}
	for i := range queues {
		if queues[i].Name != NoQueue && t.nodes[queues[i].Name] == nil {
			t.nodes[queues[i].Name] = &node{queue: queues[i]}
		}
	}
	t.nodes[NoQueue] = &node{queue: Queue{Reclaim: &Reclaim{Policy: ReclaimLowerPriority}}}
	t.connect()
	t.sortNodes()
	for _, n := range t.sorted {
		if n.parent == nil {
			t.guarantee(n)
		}
	}
	return t
}

// connect finds the parents, and the queues without one that should have one.
func (t *Tree) connect() {
	onCycle := t.onCycles()
	for name, n := range t.nodes {
		if n.queue.Parent == "" {
			continue
		}
		parent := t.nodes[n.queue.Parent]
		switch {
		case parent == nil:
			t.problems[name] = Problem{ParentNotFound, fmt.Sprintf(
				"there is no GPUQueue %q: create it, or change spec.parent of %s. Until then, %s has no guarantee, and only its own limits apply", n.queue.Parent, name, name)}
		case onCycle[name]:
			t.problems[name] = Problem{ParentCycle, fmt.Sprintf(
				"%s is its own ancestor (%s): change spec.parent of one of them. Until then, %s has no guarantee, and only its own limits apply", name, joinCycle(t.cycle(name)), name)}
		default:
			n.parent = parent
			parent.children = append(parent.children, n)
		}
	}
}

// onCycles returns the queues that are their own ancestors.
func (t *Tree) onCycles() map[string]bool {
	onCycle, visitedBy := map[string]bool{}, make(map[string]string, len(t.nodes))
	for start := range t.nodes {
		name := start
		for n := t.nodes[name]; n != nil && name != NoQueue && visitedBy[name] == ""; n = t.nodes[name] {
			visitedBy[name] = start
			name = n.queue.Parent
		}
		if visitedBy[name] != start || start == NoQueue {
			continue // it leads to a root, or to where another one has been
		}
		for !onCycle[name] {
			onCycle[name] = true
			name = t.nodes[name].queue.Parent
		}
	}
	return onCycle
}

// cycle returns the queues of a cycle from the given one up to itself.
func (t *Tree) cycle(name string) []string {
	path := []string{name}
	for at := t.nodes[name].queue.Parent; at != name; at = t.nodes[at].queue.Parent {
		path = append(path, at)
	}
	return append(path, name)
}

// joinCycle shortens a long cycle in the middle.
func joinCycle(cycle []string) string {
	const first, last = 5, 2
	if len(cycle) > first+last {
		cycle = slices.Concat(cycle[:first], []string{"…"}, cycle[len(cycle)-last:])
	}
	return strings.Join(cycle, " → ")
}

func (t *Tree) sortNodes() {
	byName := func(a, b *node) int { return cmp.Compare(a.queue.Name, b.queue.Name) }
	level := make([]*node, 0, len(t.nodes))
	for _, n := range t.nodes {
		slices.SortFunc(n.children, byName)
		if n.parent == nil {
			level = append(level, n)
		}
	}
	slices.SortFunc(level, byName)
	for depth := 0; len(level) > 0; depth++ {
		var next []*node
		for _, n := range level {
			n.depth, n.index = depth, len(t.sorted)
			t.sorted = append(t.sorted, n)
			next = append(next, n.children...)
		}
		level = next
	}
}

// guarantee computes the guarantees of a root and its descendants.
func (t *Tree) guarantee(root *node) {
	root.guaranteed = map[string]Amount{}
	if _, broken := t.problems[root.queue.Name]; !broken {
		root.guaranteed = root.queue.guarantees()
	}
	t.guaranteeChildren(root)
}

// guarantees returns what the queue asks to be guaranteed. That of AnyModel is not less than the
// others together.
func (q *Queue) guarantees() map[string]Amount {
	guaranteed, models := make(map[string]Amount, len(q.Quotas)+1), Amount(0)
	for model, quota := range q.Quotas {
		if quota.Guaranteed <= 0 {
			continue
		}
		guaranteed[model] = quota.Guaranteed
		if model != AnyModel {
			models += quota.Guaranteed
		}
	}
	if models > guaranteed[AnyModel] {
		guaranteed[AnyModel] = models
	}
	return guaranteed
}

func (t *Tree) guaranteeChildren(parent *node) {
	wanted, sums := make([]map[string]Amount, len(parent.children)), map[string]Amount{}
	for i, child := range parent.children {
		wanted[i] = child.queue.guarantees()
		for model, amount := range wanted[i] {
			sums[model] += amount
		}
	}
	for i, child := range parent.children {
		child.guaranteed = wanted[i]
		if exceeded := exceeding(sums, wanted[i], parent.guaranteed); len(exceeded) > 0 {
			child.guaranteed = reduced(wanted[i], sums, parent.guaranteed)
			t.problems[child.queue.Name] = overcommitted(parent.queue.Name, exceeded[0], sums, parent.guaranteed)
		}
		t.guaranteeChildren(child)
	}
}

// exceeding returns the models of which siblings are guaranteed more together than their parent, if
// one of them is guaranteed any, sorted.
func exceeding(sums, of, parent map[string]Amount) []string {
	var models []string
	for model := range of {
		if sums[model] > parent[model] {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	slices.Reverse(models) // AnyModel last: the reason is a model more often
	return models
}

// reduced returns a child's part of what its parent is guaranteed. Rounding down keeps the sum
// within it.
func reduced(wanted, sums, parent map[string]Amount) map[string]Amount {
	guaranteed, models := maps.Clone(wanted), Amount(0)
	for model, amount := range wanted {
		if sums[model] > parent[model] {
			guaranteed[model] = amount * parent[model] / sums[model]
		}
		if model != AnyModel {
			models += guaranteed[model]
		}
	}
	if all := guaranteed[AnyModel]; models > all {
		for model, amount := range guaranteed {
			if model != AnyModel {
				guaranteed[model] = amount * all / models
			}
		}
	}
	return guaranteed
}

func overcommitted(parent, model string, sums, guaranteed map[string]Amount) Problem {
	return Problem{GuaranteeExceedsParent, fmt.Sprintf(
		"the children of %s are guaranteed %s together, but %s only %s: raise the guarantee of %s, or lower those of its children. Until then, each child gets a proportional part",
		parent, CountModel(sums[model], model), parent, guaranteed[model], parent)}
}

// Problem returns what is wrong with a queue; nil if nothing is.
func (t *Tree) Problem(queue string) *Problem {
	if problem, found := t.problems[queue]; found {
		return &problem
	}
	return nil
}

// HasQueues reports whether there are any queues; a nil Tree has none. Without, all that waits is in NoQueue.
func (t *Tree) HasQueues() bool { return t != nil && len(t.nodes) > 1 }

// Has reports whether a queue exists.
func (t *Tree) Has(queue string) bool { return queue != NoQueue && t.nodes[queue] != nil }

// Queues returns the names of all queues, parents before their children.
func (t *Tree) Queues() []string {
	names := make([]string, 0, len(t.sorted))
	for _, n := range t.sorted {
		if n.queue.Name != NoQueue {
			names = append(names, n.queue.Name)
		}
	}
	return names
}

// Path returns a queue and its ancestors, up to the root.
func (t *Tree) Path(queue string) []string {
	var names []string
	for n := t.at(queue); n != nil; n = n.parent {
		names = append(names, n.queue.Name)
	}
	return names
}

// Fork returns the two queues that decide between two others: on the same level, on the ways to them from
// the nearest queue above both, or from the roots. Of two of which one is above the other, that is NoQueue
// for the upper one, whose own jobs count as a child without guarantee.
func (t *Tree) Fork(a, b string) (ofA, ofB string) {
	x, y, belowX, belowY := t.at(a), t.at(b), NoQueue, NoQueue
	for x != y {
		switch {
		case x == nil || y != nil && y.depth > x.depth:
			y, belowY = y.parent, y.queue.Name
		case y == nil || x.depth > y.depth:
			x, belowX = x.parent, x.queue.Name
		default:
			x, belowX, y, belowY = x.parent, x.queue.Name, y.parent, y.queue.Name
		}
	}
	return belowX, belowY
}

// Guaranteed returns what a queue is guaranteed of a model, or of AnyModel, after what is wrong
// with the tree.
func (t *Tree) Guaranteed(queue, model string) Amount { return t.at(queue).guaranteed[model] }

// Weight returns a queue's weight among its siblings.
func (t *Tree) Weight(queue string) int { return t.at(queue).weight() }

// MaxRuntime returns how long a job of a queue may run at most: the least of what holds for the queue
// and its ancestors; 0 for no limit.
func (t *Tree) MaxRuntime(queue string) time.Duration {
	least, _ := t.RuntimeLimit(queue)
	return least
}

// RuntimeLimit returns MaxRuntime, and the queue whose limit that is.
func (t *Tree) RuntimeLimit(queue string) (least time.Duration, of string) {
	for n := t.at(queue); n != nil; n = n.parent {
		if limit := n.queue.MaxRuntime; limit > 0 && (least == 0 || limit < least) {
			least, of = limit, n.queue.Name
		}
	}
	return least, of
}

// DefaultRuntime returns what to plan with for a job of a queue that declares nothing: the default
// of the queue or its nearest ancestor that has one, but not more than MaxRuntime, which is the
// default of the default; 0 if nothing is known.
func (t *Tree) DefaultRuntime(queue string) time.Duration {
	most := t.MaxRuntime(queue)
	for n := t.at(queue); n != nil; n = n.parent {
		if runtime := n.queue.DefaultRuntime; runtime > 0 {
			return atMost(runtime, most)
		}
	}
	return most
}

func atMost(runtime, limit time.Duration) time.Duration {
	if limit > 0 && limit < runtime {
		return limit
	}
	return runtime
}

// Priorities returns the PriorityClasses that Pods of a queue may have: those of the queue, or its
// nearest ancestor that has some; empty for all.
func (t *Tree) Priorities(queue string) []string {
	for n := t.at(queue); n != nil; n = n.parent {
		if len(n.queue.Priorities) > 0 {
			return n.queue.Priorities
		}
	}
	return nil
}

// DefaultNotice is the notice before GPUs are taken back if no queue says otherwise.
const DefaultNotice = time.Minute

// Reclaim returns how GPUs that a queue has borrowed are taken back: as the queue, or its nearest
// ancestor that says so, says.
func (t *Tree) Reclaim(queue string) Reclaim {
	for n := t.at(queue); n != nil; n = n.parent {
		if n.queue.Reclaim != nil {
			return *n.queue.Reclaim
		}
	}
	return Reclaim{Policy: ReclaimAny, Notice: DefaultNotice}
}

// at returns the node of a queue; a queue that does not exist is NoQueue.
func (t *Tree) at(queue string) *node {
	if n := t.nodes[queue]; n != nil {
		return n
	}
	return t.nodes[NoQueue]
}

func (n *node) weight() int { return max(n.queue.Weight, 1) }

// limit returns the queue's own limit of a model; Unlimited if it has none.
func (n *node) limit(model string) Amount {
	if quota, found := n.queue.Quotas[model]; found {
		return quota.Limit
	}
	return Unlimited
}
