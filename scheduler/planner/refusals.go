// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/scheduler/filters"
)

// refusals are what kube-scheduler's filters refused in an attempt. Nil is nothing.
type refusals struct {
	// byNode is why nodes refused members, and everywhere why no node would take one,
	// whatever else leaves it.
	byNode     map[string]*filters.Refusal
	everywhere *filters.Refusal
	// exhausted is true if the time was up before all nodes were asked.
	exhausted bool
}

// any reports whether anything was refused, or might have been had there been more time.
func (r *refusals) any() bool {
	return r != nil && (len(r.byNode) > 0 || r.everywhere != nil || r.exhausted)
}

// ranOutOfTime reports whether the time was up before all nodes were asked.
func (r *refusals) ranOutOfTime() bool { return r != nil && r.exhausted }

// atAll returns why no node would take a member of the gang; nil if one might.
func (r *refusals) atAll() *filters.Refusal {
	if r == nil {
		return nil
	}
	return r.everywhere
}

// ordered reports whether the members have to be placed in the order of the plan.
func (r *refusals) ordered() bool {
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
func (r *refusals) lasting() bool {
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

// nodes returns the nodes that refused members, in order.
func (r *refusals) nodes() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.byNode))
}

// plugins returns the plugins that refused.
func (r *refusals) plugins() []string {
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

// String describes the refusals to the Pods' owner, the most frequent first: "2 nodes with
// room refuse it: node(s) had volume node affinity conflict".
func (r *refusals) String() string {
	if r == nil {
		return ""
	}
	if r.everywhere != nil {
		return "no node can take it: " + r.everywhere.Reason
	}
	counts := map[string]int{}
	for _, refusal := range r.byNode {
		counts[refusal.Reason]++
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(-cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b))
	})
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		nodes := "1 node with room refuses it"
		if counts[reason] > 1 {
			nodes = fmt.Sprintf("%d nodes with room refuse it", counts[reason])
		}
		parts[i] = nodes + ": " + reason
	}
	if r.exhausted {
		parts = append(parts, "the search for other nodes goes on")
	}
	return strings.Join(parts, ", ")
}

// lastRefusals are those of the attempt of this scheduling cycle, for PostFilter.
type lastRefusals struct {
	group string
	*refusals
}

// of returns the refusals of a gang's attempt; nil if there were none.
func (l *lastRefusals) of(group string) *refusals {
	if l.group != group {
		return nil
	}
	return l.refusals
}
