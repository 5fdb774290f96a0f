// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// Refusals are what kube-scheduler's filters refused in an attempt. Nil is nothing.
type Refusals struct {
	// byNode is why nodes refused members, and everywhere why no node would take one,
	// whatever else leaves it.
	byNode     map[string]*Refusal
	everywhere *Refusal
	// exhausted is true if the time was up before all nodes were asked.
	exhausted bool
}

// Any reports whether anything was refused, or might have been had there been more time.
func (r *Refusals) Any() bool {
	return r != nil && (len(r.byNode) > 0 || r.everywhere != nil || r.exhausted)
}

// RanOutOfTime reports whether the time was up before all nodes were asked.
func (r *Refusals) RanOutOfTime() bool { return r != nil && r.exhausted }

// AtAll returns why no node would take a member of the gang; nil if one might.
func (r *Refusals) AtAll() *Refusal {
	if r == nil {
		return nil
	}
	return r.everywhere
}

// Ordered reports whether the members have to be placed in the order of the plan.
func (r *Refusals) Ordered() bool {
	if r == nil {
		return false
	}
	for _, refusal := range r.byNode {
		if refusal.MayEnd() {
			return true
		}
	}
	return false
}

// lasting reports whether the same would be refused again as long as the nodes stay as
// they are: nothing depended on Pods elsewhere, and all nodes were asked.
func (r *Refusals) lasting() bool {
	if r == nil {
		return true
	}
	for _, refusal := range r.byNode {
		if !refusal.Local() || refusal.Failed {
			return false
		}
	}
	return !r.exhausted
}

// Nodes returns the nodes that refused members, in order.
func (r *Refusals) Nodes() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.byNode))
}

// Plugins returns the plugins that refused.
func (r *Refusals) Plugins() []string {
	if r == nil {
		return nil
	}
	named := map[string]bool{}
	for _, refusal := range r.byNode {
		named[refusal.Plugin] = true
	}
	if r.everywhere != nil {
		named[r.everywhere.Plugin] = true
	}
	return slices.Sorted(maps.Keys(named))
}

// Each calls do with each refusal, and the node that it is of: "" and why no node would take the gang first, then by
// node.
func (r *Refusals) Each(do func(node string, refusal *Refusal)) {
	if r == nil {
		return
	}
	if r.everywhere != nil {
		do("", r.everywhere)
	}
	for _, node := range r.Nodes() {
		do(node, r.byNode[node])
	}
}

// Count is on how many nodes with room a plugin refuses the gang for a reason; 0 if no node would take it, whatever
// else leaves it.
type Count struct {
	Plugin, Reason string
	Nodes          int
}

// String describes the count to the Pods' owner: "2 nodes with room can't reach its volumes".
func (c *Count) String() string {
	if c.Nodes > 0 {
		return waitingreason.RefusedBy(c.Nodes, c.Reason)
	}
	text, plugin := waitingreason.RefusedEverywhere(c.Reason)
	if plugin == "" {
		return "no node can take it: " + text
	}
	return text
}

// Counts returns the refusals, the most frequent first.
func (r *Refusals) Counts() []Count {
	if r == nil {
		return nil
	}
	if r.everywhere != nil {
		return []Count{{Plugin: r.everywhere.Plugin, Reason: r.everywhere.Reason}}
	}
	nodes := map[Count]int{}
	for _, refusal := range r.byNode {
		nodes[Count{Plugin: refusal.Plugin, Reason: refusal.Reason}]++
	}
	counts := make([]Count, 0, len(nodes))
	for one, number := range nodes {
		one.Nodes = number
		counts = append(counts, one)
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(-cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Plugin, b.Plugin))
	})
	return counts
}

// String describes the refusals to the Pods' owner, the most frequent first.
func (r *Refusals) String() string {
	if r == nil {
		return ""
	}
	counts := r.Counts()
	parts := make([]string, len(counts))
	for i := range counts {
		parts[i] = counts[i].String()
	}
	if r.exhausted && r.everywhere == nil {
		parts = append(parts, "the search for other nodes goes on")
	}
	return strings.Join(parts, ", ")
}

// lastRefusals are those of the attempt of this scheduling cycle, for PostFilter.
type lastRefusals struct {
	group string
	*Refusals
}

// of returns the refusals of a gang's attempt; nil if there were none.
func (l *lastRefusals) of(group string) *Refusals {
	if l.group != group {
		return nil
	}
	return l.Refusals
}
