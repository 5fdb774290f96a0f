// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"
	"math/rand/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Score rates a placement from 0 to 100; the highest wins.
type Score interface {
	Score(step placement.Step) int
	// Epoch changes when scores change.
	Epoch() uint64
	// Learn is called for each request that arrives, before it is placed.
	Learn(request *placement.Request)
}

// Policy places Pods by a Score.
type Policy struct {
	score Score
	lots  *lots // nil if ties go to the smallest name
}

var _ placement.Policy = (*Policy)(nil)

// ByName returns a Policy in which ties go to the node with the smallest name.
func ByName(score Score) *Policy { return &Policy{score: score} }

// ByLot returns a Policy in which ties are broken at random at each decision, every node
// with the same probability.
func ByLot(score Score, seed int64) *Policy {
	return &Policy{score: score, lots: newLots(seed)}
}

// Learn passes a request that has arrived to the Score.
func (p *Policy) Learn(_ *placement.Cluster, r *placement.Request) { p.score.Learn(r) }

// Begin implements placement.Policy.
func (p *Policy) Begin(cluster *placement.Cluster, _ *placement.Request) {
	if p.lots != nil {
		p.lots.draw(cluster)
	}
}

// Epoch implements placement.Policy.
func (p *Policy) Epoch() uint64 { return p.score.Epoch() }

// Price implements placement.Policy.
func (p *Policy) Price(step placement.Step) float64 { return -float64(p.score.Score(step)) }

// Surcharge implements placement.Policy.
func (p *Policy) Surcharge(_ *placement.Request, before *placement.State) float64 {
	if p.lots != nil {
		return p.lots.of(before)
	}
	return 0
}

// lots are random tie-breakers: each State has the least one of its nodes.
type lots struct {
	random *rand.Rand
	drawn  map[*placement.State]float64
}

func newLots(seed int64) *lots {
	return &lots{random: rand.New(rand.NewPCG(uint64(seed), 0)), drawn: map[*placement.State]float64{}} //nolint:gosec // a replay repeats
}

// draw draws a tie-breaker for each State. The least of n numbers between 0 and 1 is
// distributed as 1-x^(1/n); a tie-breaker stays below the distance of two scores.
func (l *lots) draw(cluster *placement.Cluster) {
	clear(l.drawn)
	cluster.Root().States(func(s *placement.State, nodes int) {
		l.drawn[s] = 0.9 * (1 - math.Pow(l.random.Float64(), 1/float64(nodes)))
	})
}

func (l *lots) of(s *placement.State) float64 { return l.drawn[s] }

// fixed is for Scores that do not learn.
type fixed struct{}

func (fixed) Epoch() uint64            { return 0 }
func (fixed) Learn(*placement.Request) {}
