// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "falldio.github.io/gpu-controller/pkg/placement"

const (
	// firstRefresh is the number of requests after which the policy first learns from the
	// mix; it learns again whenever that number has doubled, and at the latest after
	// refreshEvery.
	firstRefresh = 16
	refreshEvery = 1024
)

// Policy is a placement.Policy that learns.
type Policy struct {
	parameters Parameters
	mix        *Mix
	learned    learned
	// epoch counts the refreshes; refreshAt is the number of requests at which the next
	// one is due.
	epoch     uint64
	refreshAt int
	// reserve is the price of an untouched node at the current decision, vacating that of an empty
	// one, and depending that of a GPU by the index of learned.groups.
	reserve, vacating float64
	depending         []float64
}

var _ placement.Policy = (*Policy)(nil)

// New returns a Policy that has seen no requests.
func New(parameters Parameters) *Policy {
	return &Policy{parameters: parameters, mix: NewMix(parameters.HalfLife), learned: unlearned(), refreshAt: firstRefresh}
}

// Mix returns the demand that the policy has seen. A prior may be added to it.
func (p *Policy) Mix() *Mix { return p.mix }

// Remembers reports whether the policy knows a request by its address: see placement.Cluster.SweepRequests.
func (p *Policy) Remembers(r *placement.Request) bool { return p.mix.has(r) }

// Learn counts a request that has arrived, and recomputes all prices from time to time. Nobody
// knows when its Pod ends.
func (p *Policy) Learn(cluster *placement.Cluster, r *placement.Request) {
	p.learn(cluster, r, p.mix.Add)
}

// LearnEnding is Learn for a Pod that is expected to end: how long it runs at most is declared or
// predicted.
func (p *Policy) LearnEnding(cluster *placement.Cluster, r *placement.Request) {
	p.learn(cluster, r, p.mix.AddEnding)
}

func (p *Policy) learn(cluster *placement.Cluster, r *placement.Request, count func(*placement.Request)) {
	if !cluster.Ever(r) {
		return // an impossible request says nothing about the demand
	}
	count(r)
	if p.mix.Seen() >= p.refreshAt {
		p.Refresh(cluster)
	}
}

// Refresh recomputes all prices now: after a prior was added to the mix, or the cluster
// has changed.
func (p *Policy) Refresh(cluster *placement.Cluster) {
	p.mix.forget()
	p.refreshAt = p.mix.Seen() + min(max(p.mix.Seen(), firstRefresh), refreshEvery)
	p.learned = learn(p.mix.Popular(), stockOf(cluster), p.parameters)
	p.depending = p.depending[:0] // the groups are others now
	p.epoch++
}

// Epoch implements placement.Policy.
func (p *Policy) Epoch() uint64 { return p.epoch }

// Begin implements placement.Policy.
func (p *Policy) Begin(cluster *placement.Cluster, r *placement.Request) {
	short := p.shortOfUntouched(cluster, r)
	p.reserve = p.parameters.Reserve * short
	p.vacating = 0
	if p.learned.wholeNodes > 0 {
		p.vacating = p.parameters.Vacating * p.learned.turnover * short
	}
	p.depend(cluster, r)
}

// Surcharge implements placement.Policy.
func (p *Policy) Surcharge(r *placement.Request, before *placement.State) float64 {
	price := 0.0
	if p.reserve > 0 && p.learned.untouched(before) {
		price = p.reserve
	}
	if p.learned.turnover > 0 && r.Percent() > 0 {
		price += p.vacated(r, before) + p.depended(r, before)
	}
	return price
}

// Price implements placement.Policy.
func (p *Policy) Price(step placement.Step) float64 {
	price := p.potential(step.After) - p.potential(step.Before)
	r := step.Request
	if r.Percent() == 0 {
		return price + p.withoutGPUs(step)
	}
	price += p.parameters.Scarcity * p.learned.scarcity[step.Before.Model()] * gpus(r.Percent())
	nodeFit := p.parameters.NodeFit * gpus(step.After.Percent())
	if r.Share > 0 {
		return price + p.parameters.ShareFit*gpus(step.CardFree-r.Share) + nodeFit/cardFirst
	}
	return price + nodeFit
}

// withoutGPUs returns the part of the price that only Pods without GPUs pay.
func (p *Policy) withoutGPUs(step placement.Step) float64 {
	cpu := p.parameters.CPUFit * float64(step.After.CPU()) / p.learned.largestCPU
	devices, asked := step.After.Devices(step.Request)
	if !asked {
		return cpu
	}
	return p.parameters.DeviceFit * (float64(devices) + cpu/devicesFirst)
}

// devicesFirst is how much less all of a node's CPU counts than one device, for Pods that need
// devices.
const devicesFirst = 2

// cardFirst is how much less the rest of the node counts for a share than for
// whole GPUs: the card comes first.
const cardFirst = 50

// potential returns what the cluster loses by a node being in a State, in GPUs.
func (p *Policy) potential(s *placement.State) float64 {
	cached := s.Cached()
	if cached.Epoch == p.epoch+1 { // 0 is a State without a cached value
		return cached.Number
	}
	value := p.parameters.Stranding*p.stranded(s) - p.parameters.Earnings*earnings(s, p.learned.futures)
	for _, free := range s.Free() {
		value -= p.parameters.Worth * p.learned.worth[free]
	}
	*cached = placement.Value{Epoch: p.epoch + 1, Number: value}
	return value
}

// gpus converts percent of a GPU to GPUs.
func gpus(percent int) float64 { return float64(percent) / placement.Card }
