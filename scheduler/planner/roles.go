// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// roles is a gang for the engine, and who is who in it.
type roles struct {
	*snapshot.Members[*gangs.Member]
	// near is the domain in which the gang's other members are.
	near string
}

// rolesOf sorts members by what they need. The first ones must get a place, the
// others get one if there is room.
func rolesOf(waiting []*gangs.Member, need int) *roles {
	shape := func(m *gangs.Member) placement.Shape { return m.Shape }
	return &roles{Members: snapshot.NewMembers(waiting, shape, need)}
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
