// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// roles is a gang in the engine's terms, with its members by role.
type roles struct {
	*snapshot.Members[*gangs.Member]
	// near is the domain that the gang's other members are in.
	near string
	// check asks kube-scheduler's filters about each place; nil if no check is needed.
	// refused is what they refused in this attempt, or in an equal one before.
	check   *checker
	refused *refusals
	// keys identify what the gang asks for.
	keys keys
	// claimed are the nodes that are kept for others, and only are the only ones that it may use; nil for all.
	claimed, only []string
	// asked collects the questions to the engine; nil if they are not recorded.
	asked *asked
}

// rolesOf groups members by their needs, and by what filters look at. The first ones, as
// many as need, must get a place; the others get one if there is room.
func (p *Planner) rolesOf(waiting []*gangs.Member, need int) *roles {
	class := func(m *gangs.Member) string { return p.classOf(m).Key }
	shape := func(m *gangs.Member) placement.Shape { return p.shapeOf(&m.Shape) }
	return &roles{Members: snapshot.NewMembers(waiting, shape, class, need)}
}

// shapeOf returns what a Pod needs in the engine's terms. Cards that the engine can't count, or is not to, are
// left to kube-scheduler, as resources are that no node lists. It may be called within With or For of the mirror.
func (p *Planner) shapeOf(shape *placement.Shape) placement.Shape {
	if name := snapshot.GPUResource(shape); !p.registry.Handles(name) || !p.mirror.Lists(name) {
		return p.mirror.Counted(snapshot.WithoutCards(*shape))
	}
	return p.mirror.Counted(*shape)
}

// plan plans the gang, with the filters' consent.
func (r *roles) plan(cluster *placement.Cluster) (plan *placement.Plan, fits bool, err error) {
	gang := r.Gang
	if r.check != nil {
		gang.Checker = r.check
	}
	if r.asked == nil {
		return cluster.Plan(&gang)
	}
	return r.asked.plan(cluster, &gang, r.check, r.only)
}

// tryNear calls try for the gang within the domain of its other members, so that replaced
// members return there, and then anywhere, unless that domain is required. It stops at
// the first success.
func (r *roles) tryNear(try func() bool) {
	if r.near != "" {
		r.Within = r.near
		if try() || r.Required {
			return
		}
		r.Within = ""
	}
	try()
}

// without returns the gang with further nodes that it can't use.
func (r *roles) without(nodes []string) *roles {
	rest, members := *r, *r.Members
	members.Except = union(r.Except, nodes)
	rest.Members = &members
	return &rest
}

// union returns the names that are in either list, in order.
func union(some, others []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(some, others))))
}
