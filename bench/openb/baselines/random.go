// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"
	"math/rand/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Random chooses a random one of the nodes that a Pod fits on, and of the cards that a
// share fits on.
type Random struct {
	nodes *lots
	cards *rand.Rand
}

var _ placement.Policy = (*Random)(nil)

// cardLot scales the tie-breakers of cards, which must not influence the choice of the
// node.
const cardLot = 1e-6

// NewRandom returns a Random that makes the same choices for the same seed.
func NewRandom(seed int64) *Random {
	return &Random{nodes: newLots(seed), cards: rand.New(rand.NewPCG(uint64(seed), 1))} //nolint:gosec // a replay repeats
}

// Learn does nothing.
func (*Random) Learn(*placement.Cluster, *placement.Request) {}

// Begin implements placement.Policy.
func (r *Random) Begin(cluster *placement.Cluster, _ *placement.Request) { r.nodes.draw(cluster) }

// Epoch implements placement.Policy.
func (*Random) Epoch() uint64 { return 0 }

// Price implements placement.Policy: the tie-breaker of a card, drawn once for each
// request and State, the least of those of all cards with the same amount free.
func (r *Random) Price(step placement.Step) float64 {
	if step.Request.Share == 0 {
		return 0
	}
	alike := 0
	for _, free := range step.Before.Free() {
		if int(free) == step.CardFree {
			alike++
		}
	}
	return cardLot * (1 - math.Pow(r.cards.Float64(), 1/float64(alike)))
}

// Surcharge implements placement.Policy.
func (r *Random) Surcharge(_ *placement.Request, before *placement.State) float64 {
	return r.nodes.of(before)
}
