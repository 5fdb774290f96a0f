// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// unseenPlans remembers the plans that were written and that the cache does not show
// yet: a second plan for the same purpose would be made, or the same step be taken
// again.
type unseenPlans struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	byName map[string]unseenPlan
}

type unseenPlan struct {
	version string
	since   time.Time
}

func newUnseenPlans(clock clock.PassiveClock) *unseenPlans {
	return &unseenPlans{clock: clock, byName: map[string]unseenPlan{}}
}

// wrote is called with a plan as a write returned it.
func (u *unseenPlans) wrote(plan *v1.MovePlan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byName[plan.Name] = unseenPlan{version: plan.ResourceVersion, since: u.clock.Now()}
}

// saw is called with a plan as the cache shows it, or showed it last.
func (u *unseenPlans) saw(plan *v1.MovePlan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	written, unseen := u.byName[plan.Name]
	if !unseen {
		return
	}
	if order, err := resourceversion.CompareResourceVersion(plan.ResourceVersion, written.version); err != nil || order >= 0 {
		delete(u.byName, plan.Name)
	}
}

// any is true while a write has not been seen, but not for ever: its event may be
// lost.
func (u *unseenPlans) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, written := range u.byName {
		if u.clock.Since(written.since) >= unseenTimeout {
			delete(u.byName, name)
		}
	}
	return len(u.byName) > 0
}
