// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// FGD prefers nodes on which a placement adds the least GPU capacity that is useless to
// the target workload: fragmentation gradient descent. A share gets the card with the
// best score.
type FGD struct {
	seen   *workload
	target []typical
	epoch  uint64
	// refreshAt is the number of arrivals at which the target is derived again; 0 is
	// never.
	refreshAt int
}

var _ Score = (*FGD)(nil)

// firstRefresh and refreshEvery are the arrivals after which FGD derives its
// target, if it learns it: 16, 32, 64 and so on, from 1024 on every 1024. Ours
// does the same.
const (
	firstRefresh = 16
	refreshEvery = 1024
)

// NewFGD returns an FGD that knows all Pods of the trace, like the published one.
func NewFGD(trace []placement.Shape) *FGD {
	f := &FGD{seen: newWorkload()}
	for i := range trace {
		f.seen.add(&trace[i])
	}
	f.target = f.seen.target()
	return f
}

// NewLearningFGD returns an FGD that only knows the Pods that have arrived.
func NewLearningFGD() *FGD { return &FGD{seen: newWorkload(), refreshAt: firstRefresh} }

// Learn implements Score.
func (f *FGD) Learn(r *placement.Request) {
	if f.refreshAt == 0 {
		return
	}
	f.seen.add(&r.Shape)
	if f.seen.total >= f.refreshAt {
		f.refreshAt += min(f.seen.total, refreshEvery)
		f.target = f.seen.target()
		f.epoch++
	}
}

// Epoch implements Score.
func (f *FGD) Epoch() uint64 { return f.epoch }

// Score implements Score. The difference is in GPUs.
func (f *FGD) Score(step placement.Step) int {
	gained := (f.fragments(step.Before) - f.fragments(step.After)) / placement.Card
	return int(100 / (1 + math.Exp(-gained)))
}

// fragments returns how much of the free GPUs the target workload can't use on average,
// in percent of a GPU.
func (f *FGD) fragments(s *placement.State) float64 {
	cached := s.Cached()
	if cached.Epoch == f.epoch+1 {
		return cached.Number
	}
	sum := 0.0
	for i := range f.target {
		sum += f.target[i].part * float64(f.target[i].fragment(s))
	}
	*cached = placement.Value{Epoch: f.epoch + 1, Number: sum}
	return sum
}

// fragment returns how much of the free GPUs one shape can't use: everything if it
// doesn't fit or needs no GPU, else what is left of cards that are too full.
func (t *typical) fragment(s *placement.State) int {
	if t.gpus == 0 || s.CPU() < t.cpu || !t.accepts(s.Model()) {
		return s.Percent()
	}
	fitting, rest := 0, 0
	for _, free := range s.Free() {
		if int(free) >= t.share {
			fitting++
		} else {
			rest += int(free)
		}
	}
	if fitting < t.gpus {
		return s.Percent()
	}
	return rest
}
