// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// tidyPeriod is how often what was kept for Pods that are gone is dropped.
const tidyPeriod = time.Minute

// mostGrowth is by how many bytes what Pods have asked for may grow until then.
const mostGrowth = 8 << 20

// mirrorTidier drops what the mirror keeps for Pods that are gone. It is for the periodic work.
type mirrorTidier struct {
	mirror   *mirror.Mirror
	registry *gangs.Registry
	// last is when that was done, and size how many bytes were left.
	last time.Time
	size int
}

// tidy does it from time to time, and when it has become much.
func (t *mirrorTidier) tidy(now time.Time) {
	if now.Sub(t.last) < tidyPeriod && t.mirror.Size().Bytes < t.size+mostGrowth {
		return
	}
	t.mirror.Forget(t.registry.EachPlacing)
	t.last, t.size = now, t.mirror.Size().Bytes
}

// tidyCycles drops what scheduling cycles keep for Pods that are gone, from time to time. It is for a scheduling cycle.
func (p *Planner) tidyCycles(now time.Time) {
	if now.Sub(p.cyclesTidied) < tidyPeriod {
		return
	}
	p.cyclesTidied = now
	p.explanations.sweep(now)
	p.filters.SweepClasses(func(uid types.UID) bool { return p.registry.Member(uid) != nil })
}
