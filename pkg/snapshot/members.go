// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "falldio.github.io/gpu-controller/pkg/placement"

// Members is a gang for the engine, with the members that its roles stand for. M identifies
// a member to the caller.
type Members[M any] struct {
	placement.Gang
	// members are those of each role, in the order in which they get places.
	members [][]M
}

// NewMembers groups the waiting members of a gang by what they need. The first need of them
// must get a place, the others get one if there is room. Members of different classes are
// different roles even if they need the same; without class, all are of one.
func NewMembers[M any](waiting []M, shape func(M) placement.Shape, class func(M) string, need int) *Members[M] {
	r := &Members[M]{}
	index := map[string]int{}
	for i, m := range waiting {
		needed := shape(m)
		key := needed.Key()
		if class != nil {
			key += class(m)
		}
		role, known := index[key]
		if !known {
			role = len(r.Roles)
			index[key] = role
			r.Roles = append(r.Roles, placement.Role{Shape: needed})
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

// Count returns how many members there are.
func (r *Members[M]) Count() (count int) {
	for _, role := range r.members {
		count += len(role)
	}
	return count
}

// Member returns a member of a role, in the order in which they get places.
func (r *Members[M]) Member(role, index int) M { return r.members[role][index] }

// Assign assigns the places of a plan to members.
func (r *Members[M]) Assign(plan *placement.Plan) ([]M, []placement.Place) {
	members := make([]M, len(plan.Members))
	places := make([]placement.Place, len(plan.Members))
	next := make([]int, len(r.Roles))
	for i := range plan.Members {
		role := plan.Members[i].Role
		members[i], places[i] = r.members[role][next[role]], plan.Members[i].Place
		next[role]++
	}
	return members, places
}
