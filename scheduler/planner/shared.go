// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/takeover"
)

// Shared holds the one Planner of a process. Each profile has its own plugins.
type Shared struct {
	leader   takeover.Leader
	instance string

	planner atomic.Pointer[Planner]

	mu sync.Mutex
	// scored are the profiles that choose the nodes of Pods in no gang.
	scored map[string]bool
}

// NewShared returns the Shared of a process. The instance is the process's unique name.
func NewShared(leader takeover.Leader, instance string) *Shared {
	return &Shared{leader: leader, instance: instance}
}

// SetPlacement sets how nodes are chosen for a profile's Pods in no gang.
func (s *Shared) SetPlacement(profile string, placement config.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scored == nil {
		s.scored = map[string]bool{}
	}
	s.scored[profile] = placement == config.Scored
}

// Scored reports whether the profile itself chooses those nodes.
func (s *Shared) Scored(profile string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scored[profile]
}

// Planner returns the Planner. The first profile creates it; the others must have the
// same arguments.
func (s *Shared) Planner(ctx context.Context, args *config.GangArgs, handle fwk.Handle) (*Planner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plans := s.planner.Load()
	if plans == nil {
		created, err := New(ctx, args, handle, s.leader, s.instance, clock.RealClock{})
		if err != nil {
			return nil, err
		}
		plans = created
		s.planner.Store(plans)
	}
	plans.serve(handle)
	return plans, plans.Same(args)
}

// Get returns the Planner; nil if no profile has created it, because none has plugin
// GPUGang or none has been set up yet.
func (s *Shared) Get() *Planner { return s.planner.Load() }
