// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// gangTimes are the times of a gang's events, as seen by the benchmark's own watch.
type gangTimes struct {
	index, size int
	// due is when it was to be created.
	due time.Time
	// bound and running count Pods; the times are those of the last one.
	bound, running             int
	firstBound, lastBound, ran time.Time
	// reported is when its GPUTask reported that it runs.
	reported time.Time
	// pause is the longest time between two bindings.
	pause time.Duration
}

func (g *gangTimes) bind(now time.Time) {
	if g.bound == 0 {
		g.firstBound = now
	} else {
		g.pause = max(g.pause, now.Sub(g.lastBound))
	}
	g.bound, g.lastBound = g.bound+1, now
}
