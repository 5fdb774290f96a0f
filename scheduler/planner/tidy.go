// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tidyPeriod is how often what was kept for Pods that are gone is dropped.
const tidyPeriod = time.Minute

// mostGrowth is by how many bytes what Pods have asked for may grow until then.
const mostGrowth = 8 << 20

// tidyMirror drops what the mirror keeps for Pods that are gone, from time to time, and when it has become much. It is for the periodic work.
func (p *Planner) tidyMirror(now time.Time) {
	if now.Sub(p.mirrorTidied) < tidyPeriod && p.mirror.Size().Bytes < p.mirrorSize+mostGrowth {
		return
	}
	p.mirror.Forget(p.registry.EachPlacing)
	p.mirrorTidied, p.mirrorSize = now, p.mirror.Size().Bytes
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
