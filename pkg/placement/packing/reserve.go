// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "falldio.github.io/gpu-controller/pkg/placement"

const (
	// enough is the fraction of the untouched nodes that may be needed before they become
	// expensive; if all are needed, they cost the full price.
	enough = 0.3
	// oneMore allows for another request for a whole node, which may always come; in
	// nodes. For GPUs that others depend on, it is in GPUs.
	oneMore = 0.5
)

// shortOfUntouched returns how scarce untouched nodes are, from 0 to 1, for a request
// that does not need a whole one: how many whole nodes the free GPUs are expected to be
// requested as, relative to the untouched nodes left. It is 1 if there are none.
func (p *Policy) shortOfUntouched(cluster *placement.Cluster, r *placement.Request) float64 {
	if r.Percent() == 0 || r.GPUs >= p.learned.cards || p.learned.cards < 2 {
		return 0
	}
	left := 0
	cluster.Root().Idle(func(s *placement.State, nodes int) {
		if p.learned.untouched(s) {
			left += nodes
		}
	})
	return shortage(p.learned.wholeNodes*gpus(cluster.Root().Percent())/float64(p.learned.cards)+oneMore, float64(left))
}

// shortage returns how short something is of which some is left and some will be needed, from 0
// to 1.
func shortage(needed, left float64) float64 {
	if left <= 0 {
		return 1
	}
	return min(1, max(0, (needed/left-enough)/(1-enough)))
}

// untouched reports whether a node could take a request for a whole one.
func (l *learned) untouched(s *placement.State) bool {
	return s.Whole() == l.cards && !s.Closed() && s.CPU() >= l.wholeNodeCPU
}
