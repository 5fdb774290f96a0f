// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"
	"math/rand/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Parameters weigh the parts of the price, all in GPUs.
type Parameters struct {
	Earnings  float64 // what the node can still earn
	Stranding float64 // GPUs that have too little CPU
	Worth     float64 // rests of cards
	Scarcity  float64 // models that others need
	Rarity    float64 // part of Scarcity that holds for any rare model
	Reserve   float64 // nodes kept for requests of whole nodes
	CPUFit    float64 // Pods without GPUs go where little CPU is left
	ShareFit  float64 // shares go where little of the card is left
	// Tightness is the part of the average CPU per GPU that GPUs need.
	Tightness float64
	// Smoothing is the CPU, in milli-cores, over which stranding sets in.
	Smoothing float64
	HalfLife  float64
}

// Default are the parameters that the benchmarks use.
func Default() Parameters {
	return Parameters{
		Earnings: 0.8, Stranding: 1.9, Worth: 12, Scarcity: 1.8, Rarity: 0.3, Reserve: 2.5, CPUFit: 1, ShareFit: 0.02,
		Tightness: 0.33, Smoothing: 5000, HalfLife: 1e5,
	}
}

// Policy keeps nodes useful for what is asked for.
type Policy struct {
	parameters Parameters
	mix        *Mix
	epoch      uint64
	refreshAt  int
	learned    learned
	reserve    float64
}

// learned is what follows from the mix.
type learned struct {
	cpuPerGPU float64 // milli-cores per percent
	worth     *worth
	futures   [][]*placement.Request
	scarcity  map[string]float64
	wholeNode float64 // share of the demand that wants whole nodes
	cards     int     // of the largest node
}

var _ placement.Policy = (*Policy)(nil)

// New returns a Policy that knows nothing of the mix.
func New(parameters Parameters) *Policy {
	p := &Policy{parameters: parameters, mix: NewMix(parameters.HalfLife), refreshAt: 16}
	p.learned = learned{cpuPerGPU: 110, worth: proportional(), cards: 8}
	return p
}

// Learn counts a request that has arrived.
func (p *Policy) Learn(cluster *placement.Cluster, r *placement.Request) {
	p.mix.Add(r)
	if p.mix.Seen() >= p.refreshAt {
		p.refresh(cluster)
	}
}

// Epoch implements placement.Policy.
func (p *Policy) Epoch() uint64 { return p.epoch }

func (p *Policy) refresh(cluster *placement.Cluster) {
	seen := p.mix.Seen()
	p.refreshAt = seen + min(seen, 1024)
	p.epoch++
	popular := p.mix.Popular()
	demand := make([]float64, placement.Card+1)
	cpu, gpu, whole := 0.0, 0.0, 0.0
	capacity, total, cards := map[string]float64{}, 0.0, 0
	cluster.Root().States(func(s *placement.State, nodes int) {
		capacity[s.Model()] += float64(s.Cards() * nodes)
		total += float64(s.Cards() * nodes)
		cards = max(cards, s.Cards())
	})
	for _, one := range popular {
		r := one.Request
		if r.Percent() == 0 {
			continue
		}
		cpu += one.Weight * float64(r.CPU)
		gpu += one.Weight * float64(r.Percent())
		if r.GPUs == cards {
			whole += one.Weight * float64(r.Percent())
		}
		if r.Share > 0 {
			demand[r.Share] += one.Weight
		} else {
			demand[placement.Card] += one.Weight * float64(r.GPUs)
		}
	}
	if gpu == 0 {
		return
	}
	scarcity := map[string]float64{}
	for model, has := range capacity {
		press := 0.0
		for _, one := range popular {
			r := one.Request
			if len(r.Models) == 0 || r.Percent() == 0 || !contains(r.Models, model) {
				continue
			}
			accepted := 0.0
			for _, m := range r.Models {
				accepted += capacity[m]
			}
			press += one.Weight * float64(r.Percent()) / gpu * total / accepted
		}
		scarcity[model] = press + p.parameters.Rarity*(1-has/total)
	}
	p.learned = learned{
		cpuPerGPU: cpu / gpu, worth: newWorth(demand), scarcity: scarcity, wholeNode: whole / gpu, cards: cards,
		futures: futuresOf(popular, rand.New(rand.NewPCG(1, 2))),
	}
}

func contains(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}

// Begin implements placement.Policy.
func (p *Policy) Begin(cluster *placement.Cluster, r *placement.Request) {
	p.reserve = 0
	if r.Percent() == 0 || r.GPUs == p.learned.cards {
		return
	}
	left, free := 0, 0
	cluster.Root().States(func(s *placement.State, nodes int) {
		free += s.Percent() * nodes
		if p.untouched(s) {
			left += nodes
		}
	})
	if left == 0 {
		return
	}
	tightness := (p.learned.wholeNode*float64(free)/placement.Card/float64(p.learned.cards) + 0.5) / float64(left)
	p.reserve = p.parameters.Reserve * min(1, max(0, (tightness-0.3)/0.7))
}

func (p *Policy) untouched(s *placement.State) bool {
	return s.Whole() == p.learned.cards && s.CPU() >= 64000
}

// Surcharge implements placement.Policy.
func (p *Policy) Surcharge(r *placement.Request, before *placement.State) float64 {
	if p.reserve > 0 && p.untouched(before) {
		return p.reserve
	}
	return 0
}

// Price implements placement.Policy.
func (p *Policy) Price(step placement.Step) float64 {
	price := p.potential(step.After) - p.potential(step.Before)
	r := step.Request
	if r.Percent() == 0 {
		return price + p.parameters.CPUFit*float64(step.After.CPU())/128000
	}
	price += p.parameters.Scarcity * p.learned.scarcity[step.Before.Model()] * float64(r.Percent()) / placement.Card
	if r.Share > 0 {
		price += p.parameters.ShareFit * float64(step.CardFree-r.Share) / placement.Card
	}
	return price
}

// potential is what a State costs, in GPUs.
func (p *Policy) potential(s *placement.State) float64 {
	cached := s.Cached()
	if cached.Epoch == p.epoch+1 {
		return cached.Number
	}
	value := -p.parameters.Earnings*earnings(s, p.learned.futures) + p.parameters.Stranding*p.stranded(s)
	for _, free := range s.Free() {
		value -= p.parameters.Worth * p.learned.worth[free]
	}
	*cached = placement.Value{Epoch: p.epoch + 1, Number: value}
	return value
}

// stranded is how many free GPUs have too little CPU beside them.
func (p *Policy) stranded(s *placement.State) float64 {
	perPercent := p.parameters.Tightness * p.learned.cpuPerGPU
	if perPercent == 0 {
		return 0
	}
	need := perPercent * float64(s.Percent())
	missing := p.parameters.Smoothing * math.Log1p(math.Exp((need-float64(s.CPU()))/p.parameters.Smoothing))
	return min(need, missing) / perPercent / placement.Card
}
