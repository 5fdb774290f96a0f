// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
)

// search is an attempt to place a gang, and collects what is found out on the way.
type search struct {
	attempt *gangs.Attempt
	begin   time.Time
	// request is what the gang asks for, and keys identify that. It is nil as long as that is not known.
	request *gangs.Request
	keys    filters.Keys
	// check asks kube-scheduler's filters about each place; nil if no check is needed.
	// refused is what they refused in this attempt, or in an equal one before.
	check   *filters.Checker
	refused *filters.Refusals
	// questions collects the questions to the engine; nil if they are not recorded.
	questions *recorder.Questions
}

// key returns the key for what is known of the gang after this attempt.
func (s *search) key() string { return s.keys.After(s.refused.Any()) }

// unrecorded returns the search without a record of its questions: what follows is for an explanation.
func (s *search) unrecorded() *search {
	other := *s
	other.questions = nil
	return &other
}

// plan plans the gang as a request says, with the filters' consent.
func (s *search) plan(cluster *placement.Cluster, request *gangs.Request) (plan *placement.Plan, fits bool, err error) {
	gang := request.Gang
	if s.check != nil {
		gang.Checker = s.check
	}
	return s.questions.Plan(cluster, &gang, request.Only)
}

// requestFor groups members by their needs, and by what filters look at. The first ones, as
// many as need, must get a place; the others get one if there is room.
func (p *Planner) requestFor(waiting []*gangs.Member, need int) *gangs.Request {
	class := func(m *gangs.Member) string { return p.filters.ClassOf(m).Key }
	shape := func(m *gangs.Member) placement.Shape { return p.shapeOf(&m.Shape) }
	return &gangs.Request{Members: snapshot.NewMembers(waiting, shape, class, need)}
}

// shapeOf returns what a Pod needs in the engine's terms. Cards that the engine can't count, or is not to, are
// left to kube-scheduler, as resources are that no node lists. It may be called within With or For of the mirror.
func (p *Planner) shapeOf(shape *placement.Shape) placement.Shape {
	if name := snapshot.GPUResource(shape); !p.registry.Handles(name) || !p.mirror.Lists(name) {
		return p.mirror.Counted(snapshot.WithoutCards(*shape))
	}
	return p.mirror.Counted(*shape)
}
