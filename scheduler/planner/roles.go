// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// roles is a gang for the engine, and who is who in it.
type roles struct {
	placement.Gang
	// members are those of each role, in the order in which they get places.
	members [][]*gangs.Member
	// near is the domain in which the gang's other members are.
	near string
}

// rolesOf sorts members by what they need. The first ones must get a place, the
// others get one if there is room.
func rolesOf(waiting []*gangs.Member, need int) *roles {
	r := &roles{}
	index := map[string]int{}
	for i, m := range waiting {
		key := m.Shape.Key()
		role, known := index[key]
		if !known {
			role = len(r.Roles)
			index[key] = role
			r.Roles = append(r.Roles, placement.Role{Shape: m.Shape})
			r.members = append(r.members, nil)
		}
		r.members[role] = append(r.members[role], m)
		r.Roles[role].Max++
		if i < need {
			r.Roles[role].Min++
		}
	}
	return r
}

// tryNear calls try for the gang within the domain that its other members are in, to
// which members go that come back, and, if that is only preferred, anywhere. It ends
// with the first success.
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

// assign gives the places of a plan to members.
func (r *roles) assign(plan *placement.Plan) ([]*gangs.Member, []placement.Place) {
	members := make([]*gangs.Member, len(plan.Members))
	places := make([]placement.Place, len(plan.Members))
	next := make([]int, len(r.Roles))
	for i := range plan.Members {
		role := plan.Members[i].Role
		members[i], places[i] = r.members[role][next[role]], plan.Members[i].Place
		next[role]++
	}
	return members, places
}
