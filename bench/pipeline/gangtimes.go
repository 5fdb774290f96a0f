// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// gangTimes are the moments of a gang, as the benchmark's own watch saw them.
type gangTimes struct {
	index, size int
	// due is when it was to be created.
	due time.Time
	// bound and running count Pods; the times are those of the last one.
	bound, running             int
	firstBound, lastBound, ran time.Time
	// told is when its GPUTask said that it runs.
	told time.Time
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
