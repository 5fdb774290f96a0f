// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "falldio.github.io/gpu-controller/pkg/placement"

// Where Pods end, a full cluster changes with each of them, and prices decide which nodes become
// free. Two terms then count that change nothing in a cluster which only fills up. Both are in
// proportion to the turnover, and to how short of something the cluster is.

// vacated returns the price of a request on a node that could become whole. It falls as the node
// fills up: the GPUs of the emptiest nodes are the dearest, so that these become empty.
func (p *Policy) vacated(r *placement.Request, before *placement.State) float64 {
	if p.vacating == 0 || before.Cards() < p.learned.cards {
		return 0
	}
	emptiness := func(percent int) float64 {
		part := gpus(percent) / float64(p.learned.cards)
		return part * part
	}
	return p.vacating * (emptiness(before.Percent()) - emptiness(before.Percent()-r.Percent()))
}

// depend sets the prices of GPUs that others depend on for the current decision; none if enough are
// left everywhere.
func (p *Policy) depend(cluster *placement.Cluster, r *placement.Request) {
	p.depending = p.depending[:0]
	if r.Percent() == 0 {
		return
	}
	price, free := p.parameters.Dependence*p.learned.turnover, gpus(cluster.Root().Percent())
	short := false
	for i := range p.learned.groups {
		g := &p.learned.groups[i]
		p.depending = append(p.depending, price*shortage(g.dependent*free+oneMore, g.free()))
		short = short || p.depending[i] > 0
	}
	if !short {
		p.depending = p.depending[:0]
	}
}

// depended returns the price of a request on a node that others depend on.
func (p *Policy) depended(r *placement.Request, before *placement.State) float64 {
	if len(p.depending) == 0 {
		return 0
	}
	if at, depends := p.learned.groupOf[before.Kind()]; depends {
		return p.depending[at] * gpus(r.Percent())
	}
	return 0
}
