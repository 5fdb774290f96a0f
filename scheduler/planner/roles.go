// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// roles is a gang in the engine's terms, with its members by role.
type roles struct {
	*snapshot.Members[*gangs.Member]
	// near is the domain that the gang's other members are in.
	near string
}

// rolesOf groups members by their needs. The first ones, as many as need, must get a
// place; the others get one if there is room.
func rolesOf(waiting []*gangs.Member, need int) *roles {
	shape := func(m *gangs.Member) placement.Shape { return m.Shape }
	return &roles{Members: snapshot.NewMembers(waiting, shape, need)}
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
