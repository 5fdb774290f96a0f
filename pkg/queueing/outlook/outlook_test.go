// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
)

var now = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// exactly is a duration that is known.
func exactly(minutes int) outlook.Duration {
	d := time.Duration(minutes) * time.Minute
	return outlook.Duration{Draw: func(*rand.Rand) time.Duration { return d }, Bound: d}
}

func nodes(count int) []outlook.Node {
	list := make([]outlook.Node, count)
	for i := range list {
		list[i] = outlook.Node{Model: "h100", Percent: 800}
	}
	return list
}

func runs(key string, node, gpus int, d outlook.Duration) outlook.Running {
	return outlook.Running{Key: key, Holds: []outlook.Hold{{Node: node, Percent: 100 * gpus}}, Duration: d}
}

func waits(key string, members, gpus int, d outlook.Duration) outlook.Waiting {
	return outlook.Waiting{Key: key, Needs: []outlook.Need{{Members: members, Percent: 100 * gpus}}, Duration: d}
}

// comes is a job for a whole node.
func comes(key string, after int, turn float64, minutes int) outlook.Coming {
	one := waits(key, 1, 8, exactly(minutes))
	one.Turn = turn
	return outlook.Coming{After: time.Duration(after) * time.Minute, Waiting: one}
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in     outlook.Input
		want   []int // minutes; -1 for unknown
		behind []string
	}{
		"it starts now": {
			outlook.Input{Nodes: nodes(1), Waiting: []outlook.Waiting{waits("a", 1, 8, exactly(60))}}, []int{0}, []string{""},
		},
		"one after the other": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 1, exactly(30))},
				Waiting: []outlook.Waiting{waits("a", 1, 8, exactly(60)), waits("b", 1, 8, exactly(60))},
			}, []int{30, 90}, []string{"x", "a"},
		},
		"a short job goes before, a long one does not": {
			outlook.Input{
				Nodes: nodes(2), Running: []outlook.Running{runs("x", 0, 8, exactly(30))}, Booked: 1,
				Waiting: []outlook.Waiting{waits("a", 2, 8, exactly(60)), waits("b", 1, 8, exactly(40)), waits("c", 1, 8, exactly(30))},
			}, []int{30, 90, 0}, []string{"x", "a", ""},
		},
		"without bookings others pass": {
			outlook.Input{
				Nodes: nodes(2), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting: []outlook.Waiting{waits("a", 2, 8, exactly(60)), waits("b", 1, 8, exactly(40))},
			}, []int{40, 0}, []string{"b", ""},
		},
		"another model is no help": {
			outlook.Input{
				Nodes: append(nodes(1), outlook.Node{Model: "a100", Percent: 800}), Running: []outlook.Running{runs("x", 0, 1, exactly(30))},
				Waiting: []outlook.Waiting{{Key: "a", Needs: []outlook.Need{{Members: 1, Percent: 800, Models: []string{"h100"}}}, Duration: exactly(1)}},
			}, []int{30}, []string{"x"},
		},
		"what is apart is for those who name it": {
			outlook.Input{
				Nodes: append(nodes(1), outlook.Node{Model: "slices", Percent: 800, Apart: true}), Running: []outlook.Running{runs("x", 0, 8, exactly(30)), runs("y", 1, 8, exactly(10))},
				Waiting: []outlook.Waiting{
					waits("a", 1, 8, exactly(60)),
					{Key: "b", Needs: []outlook.Need{{Members: 2, Percent: 14, Models: []string{"slices"}}}, Duration: exactly(1)},
				},
			}, []int{30, 10}, []string{"x", "y"},
		},
		"it never fits": {
			outlook.Input{Nodes: nodes(1), Waiting: []outlook.Waiting{waits("a", 1, 9, exactly(60)), waits("b", 1, 8, exactly(60))}}, []int{-1, 0}, []string{"", ""},
		},
		"nobody knows when": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 1, outlook.Duration{})},
				Waiting: []outlook.Waiting{waits("a", 1, 8, exactly(60))},
			}, []int{-1}, []string{""},
		},
		"who is likely to come may go first": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting:   []outlook.Waiting{{Key: "a", Turn: 100, Needs: []outlook.Need{{Members: 1, Percent: 800}}, Duration: exactly(10)}},
				Scenarios: [][]outlook.Coming{{comes("c", 5, 50, 15)}},
			}, []int{45}, []string{"c"},
		},
		"jobs come in the order of their arrival": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting:   []outlook.Waiting{{Key: "a", Turn: 100, Needs: []outlook.Need{{Members: 1, Percent: 800}}, Duration: exactly(10)}},
				Scenarios: [][]outlook.Coming{{comes("later", 35, 50, 15), comes("sooner", 5, 60, 20)}},
			}, []int{65}, []string{"later"},
		},
		"most of the scenarios decide": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting:   []outlook.Waiting{{Key: "a", Turn: 100, Needs: []outlook.Need{{Members: 1, Percent: 800}}, Duration: exactly(10)}},
				Scenarios: [][]outlook.Coming{{}, {comes("c", 5, 50, 15)}, {comes("d", 5, 50, 15), comes("e", 6, 50, 15)}},
			}, []int{45}, []string{"c"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.in.Now, test.in.Draws = now, 3
			for i, e := range outlook.Estimates(&test.in) {
				got := -1
				if !e.Likely.IsZero() {
					got = int(e.Likely.Sub(now) / time.Minute)
				}
				if got != test.want[i] || e.Behind != test.behind[i] {
					t.Errorf("%s: got %d behind %q, want %d behind %q", e.Key, got, e.Behind, test.want[i], test.behind[i])
				}
			}
		})
	}
}

// queue returns many running and waiting jobs.
func queue(nodeCount, waiting int) *outlook.Input {
	random := rand.New(rand.NewPCG(1, 1))
	in := &outlook.Input{Nodes: nodes(nodeCount), Now: now, Draws: 5, Booked: 8}
	drawn := func() outlook.Duration {
		mean := float64(1+random.IntN(1000)) * float64(time.Minute)
		return outlook.Duration{Draw: func(r *rand.Rand) time.Duration { return time.Duration(mean * r.ExpFloat64()) }, Bound: time.Duration(2.5 * mean)}
	}
	for i := range nodeCount {
		in.Running = append(in.Running, runs(fmt.Sprintf("r%d", i), i, 1+random.IntN(8), drawn()))
	}
	for i := range waiting {
		members, gpus := 1, 1<<random.IntN(4)
		if gpus == 8 {
			members = 1 + random.IntN(4)
		}
		in.Waiting = append(in.Waiting, waits(fmt.Sprintf("w%d", i), members, gpus, drawn()))
	}
	return in
}

func TestEstimatesAreOrderedAndRepeatable(t *testing.T) {
	t.Parallel()
	in := queue(20, 200)
	first := outlook.Estimates(in)
	for _, e := range first {
		if e.Likely.IsZero() || e.Earliest.After(e.Likely) || e.Likely.After(e.Latest) || e.Earliest.Before(now) {
			t.Errorf("got %+v", e)
		}
	}
	if again := outlook.Estimates(in); !reflect.DeepEqual(first, again) {
		t.Error("the second time the estimates differ")
	}
}

func Benchmark10000WaitingOn1000Nodes(b *testing.B) {
	in := queue(1000, 10_000)
	for b.Loop() {
		outlook.Estimates(in)
	}
}

func Benchmark10000WaitingOn10000Nodes(b *testing.B) {
	in := queue(10_000, 10_000)
	for b.Loop() {
		outlook.Estimates(in)
	}
}
