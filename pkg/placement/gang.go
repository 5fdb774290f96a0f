// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// Gang is a set of Pods that start together or not at all.
type Gang struct {
	Roles []Role
	// Level is the level at which the gang should be in a single domain; 0 for none. 1 is
	// the widest.
	Level int
	// Required makes Level a condition. Otherwise it is a preference: as few domains as
	// possible.
	Required bool
	// Within confines the gang to a domain, by its name: that of members that already
	// run. Empty means anywhere.
	Within string
	// Except are the names of nodes that no member may use, for reasons unknown to this
	// package.
	Except []string
	// Checker judges each place in addition to the engine; nil if nothing else matters.
	Checker Checker
}

// Role is members of a gang with the same shape.
type Role struct {
	Shape Shape
	// Min members start together, or none does.
	Min int
	// Max is at least Min. Members above Min join if there is room. A role may be left out with 0.
	Max int
}

// Validate returns an error if the gang is invalid.
func (g *Gang) Validate() error {
	if len(g.Roles) == 0 {
		return fmt.Errorf("roles: at least one is needed")
	}
	for i := range g.Roles {
		role := &g.Roles[i]
		if err := role.Shape.Validate(); err != nil {
			return fmt.Errorf("roles[%d]: %w", i, err)
		}
		if role.Min < 0 || role.Max < role.Min {
			return fmt.Errorf("roles[%d]: needs 0 ≤ min ≤ max, has min %d, max %d", i, role.Min, role.Max)
		}
	}
	if !slices.ContainsFunc(g.Roles, func(role Role) bool { return role.Max > 0 }) {
		return fmt.Errorf("roles: at least one needs a maximum of 1 or more")
	}
	if g.Level < 0 {
		return fmt.Errorf("level: must not be negative, is %d", g.Level)
	}
	return nil
}

// Member is where one Pod of a gang goes.
type Member struct {
	Role int
	Place
}

// Plan is where a gang goes.
type Plan struct {
	// Members are in the order in which they were placed.
	Members []Member
	// Domains are the names of the domains of the gang's level that it is in.
	Domains []string
}

// demand is the members of a role that are yet to be placed.
type demand struct {
	role    int
	request *Request
	count   int
}

// demands returns the members of all roles that must start, hardest to place first.
func (c *Cluster) demands(g *Gang) []demand {
	var list []demand
	for i := range g.Roles {
		if g.Roles[i].Min > 0 {
			list = append(list, demand{role: i, request: c.Request(g.Roles[i].Shape), count: g.Roles[i].Min})
		}
	}
	slices.SortStableFunc(list, harder)
	return list
}

// harder orders by difficulty of placement: the most GPUs first, then the fewest models,
// then those with a selector, then the most CPU and memory.
func harder(a, b demand) int {
	x, y := &a.request.Shape, &b.request.Shape
	return cmp.Or(
		-cmp.Compare(x.Percent(), y.Percent()),
		cmp.Compare(accepted(x), accepted(y)),
		cmp.Compare(unselected(x), unselected(y)),
		-cmp.Compare(x.CPU, y.CPU),
		-cmp.Compare(x.Memory, y.Memory),
		-cmp.Compare(len(x.Others), len(y.Others)),
	)
}

// accepted returns how many models a shape accepts; any counts as more than all.
func accepted(s *Shape) int {
	if len(s.Models) == 0 {
		return int(^uint(0) >> 1)
	}
	return len(s.Models)
}

// unselected returns 1 if the shape has no selector and no rules, else 0.
func unselected(s *Shape) int { return oneIf(s.Selector == nil && len(s.Nodes) == 0) }
