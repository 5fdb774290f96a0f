// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))
}

func TestUsageHalvesWithEachHalfLife(t *testing.T) {
	t.Parallel()
	used := queueing.Usage{GPUSeconds: 800, At: start}
	for halfLives, want := range map[int]float64{0: 800, 1: 400, 2: 200, 3: 100} {
		at := start.Add(time.Duration(halfLives) * 24 * time.Hour)
		if got := used.DecayedTo(at, 24*time.Hour); !near(got.GPUSeconds, want, 1e-9) || !got.At.Equal(at) {
			t.Errorf("after %d half-lives: got %v, want %v", halfLives, got, want)
		}
	}
	if got := used.DecayedTo(start.Add(-time.Hour), time.Hour); got != used {
		t.Errorf("an earlier time: got %v, want it unchanged", got)
	}
	if got := used.DecayedTo(start.Add(queueing.DefaultHalfLife), 0); !near(got.GPUSeconds, 400, 1e-9) {
		t.Errorf("the default half-life: got %v", got)
	}
}

func TestManyStepsAddUpToOne(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	begin := queueing.Usage{GPUSeconds: 5000, At: start}
	whole := begin.Plus(8, start.Add(100*time.Hour), 24*time.Hour)
	for range 20 {
		steps := begin
		for at := start; at.Before(whole.At); {
			at = at.Add(time.Duration(1 + random.IntN(int(10*time.Hour))))
			if at.After(whole.At) {
				at = whole.At
			}
			steps = steps.Plus(8, at, 24*time.Hour)
		}
		if !near(steps.GPUSeconds, whole.GPUSeconds, 1e-9) {
			t.Fatalf("got %v, want %v", steps, whole)
		}
	}
}

func TestUsageWithoutDecayIsGPUTime(t *testing.T) {
	t.Parallel()
	const years = 100 * 365 * 24 * time.Hour
	used := queueing.Usage{At: start}.Plus(4, start.Add(time.Hour), years)
	if !near(used.GPUSeconds, 4*3600, 1e-6) {
		t.Errorf("got %v", used.GPUSeconds)
	}
	if got := (queueing.Usage{}).Plus(4, start, time.Hour); got.GPUSeconds != 0 || !got.At.Equal(start) {
		t.Errorf("usage that begins: got %v", got)
	}
	both := used.Sum(queueing.Usage{GPUSeconds: 10, At: used.At}, used.At, years)
	if !near(both.GPUSeconds, 4*3600+10, 1e-6) {
		t.Errorf("the sum: got %v", both)
	}
}

func TestFactors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		queues []queueing.Share
		want   map[string]float64
	}{
		"nothing was used": {
			[]queueing.Share{{Name: "a", Waits: true}, {Name: "b", Waits: true}}, map[string]float64{"a": 1, "b": 1},
		},
		"equal weights": {
			[]queueing.Share{{Name: "a", Usage: 30}, {Name: "b", Usage: 10}}, map[string]float64{"a": 1.5, "b": 0.5},
		},
		"who has three times the weight may use three times as much": {
			[]queueing.Share{{Name: "a", Weight: 3, Usage: 30}, {Name: "b", Weight: 1, Usage: 10}}, map[string]float64{"a": 1, "b": 1},
		},
		"who neither used anything nor waits is due nothing": {
			[]queueing.Share{{Name: "a", Usage: 30}, {Name: "b", Usage: 10}, {Name: "idle"}}, map[string]float64{"a": 1.5, "b": 0.5, "idle": 1},
		},
		"who waits is due its part": {
			[]queueing.Share{{Name: "a", Usage: 40}, {Name: "b", Waits: true}}, map[string]float64{"a": 2, "b": 0},
		},
		"what an idle queue is due goes to its sibling first": {
			[]queueing.Share{
				{Name: "left"}, {Name: "l1", Parent: "left", Usage: 20}, {Name: "l2", Parent: "left"},
				{Name: "right"}, {Name: "r1", Parent: "right", Usage: 10}, {Name: "r2", Parent: "right", Usage: 10},
			},
			map[string]float64{"left": 1, "l1": 1, "l2": 1, "right": 1, "r1": 1, "r2": 1},
		},
		"own jobs of a queue are like a child": {
			[]queueing.Share{{Name: "p", Usage: 10}, {Name: "c", Parent: "p", Usage: 30}}, map[string]float64{"p": 0.5, "c": 1.5},
		},
		"a cycle and an unknown parent count as none": {
			[]queueing.Share{{Name: "a", Parent: "b", Usage: 10}, {Name: "b", Parent: "a", Usage: 10}, {Name: "c", Parent: "gone", Usage: 10}},
			map[string]float64{"a": 1, "b": 1, "c": 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := queueing.Factors(test.queues)
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for queue, want := range test.want {
				if !near(got[queue], want, 1e-9) {
					t.Errorf("%s: got %v, want %v", queue, got[queue], want)
				}
			}
		})
	}
}

func TestFactorsTimesDuesIsAllUsage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		var queues []queueing.Share
		for i := range 2 + random.IntN(8) {
			queues = append(queues, queueing.Share{Name: string(rune('a' + i)), Weight: 1 + random.Float64(), Usage: 1 + random.Float64()})
		}
		factors := queueing.Factors(queues)
		weights, mean := 0.0, 0.0
		for _, q := range queues {
			weights += q.Weight
			mean += factors[q.Name] * q.Weight
		}
		if !near(mean/weights, 1, 1e-9) {
			t.Fatalf("%v: the mean factor is %v, want 1", queues, mean/weights)
		}
	}
}
