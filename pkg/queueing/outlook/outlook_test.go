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
			}, []int{30, 90}, []string{"x", "x"},
		},
		"a short job goes before, a long one does not": {
			outlook.Input{
				Nodes: nodes(2), Running: []outlook.Running{runs("x", 0, 8, exactly(30))}, Booked: 1,
				Waiting: []outlook.Waiting{waits("a", 2, 8, exactly(60)), waits("b", 1, 8, exactly(40)), waits("c", 1, 8, exactly(30))},
			}, []int{30, 90, 0}, []string{"x", "x", ""},
		},
		"without bookings others pass": {
			outlook.Input{
				Nodes: nodes(2), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting: []outlook.Waiting{waits("a", 2, 8, exactly(60)), waits("b", 1, 8, exactly(40))},
			}, []int{40, 0}, []string{"", ""},
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
			}, []int{45}, []string{"x"},
		},
		"jobs come in the order of their arrival": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting:   []outlook.Waiting{{Key: "a", Turn: 100, Needs: []outlook.Need{{Members: 1, Percent: 800}}, Duration: exactly(10)}},
				Scenarios: [][]outlook.Coming{{comes("later", 35, 50, 15), comes("sooner", 5, 60, 20)}},
			}, []int{65}, []string{"x"},
		},
		"most of the scenarios decide": {
			outlook.Input{
				Nodes: nodes(1), Running: []outlook.Running{runs("x", 0, 8, exactly(30))},
				Waiting:   []outlook.Waiting{{Key: "a", Turn: 100, Needs: []outlook.Need{{Members: 1, Percent: 800}}, Duration: exactly(10)}},
				Scenarios: [][]outlook.Coming{{}, {comes("c", 5, 50, 15)}, {comes("d", 5, 50, 15), comes("e", 6, 50, 15)}},
			}, []int{45}, []string{"x"},
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

func TestAnEstimateSaysWhatItDependsOn(t *testing.T) {
	t.Parallel()
	assumed := func(minutes int) outlook.Duration {
		d := exactly(minutes)
		d.Assumed, d.Bound = d.Bound, 0
		return d
	}
	rough := func(minutes int) outlook.Duration {
		d := exactly(minutes)
		d.Rough = true
		return d
	}
	tests := map[string]struct {
		running, waiting outlook.Duration // of x, which runs, and a, which waits for it; b waits for both, and c for y
		assumed          [3]string
		rough            [3]bool
	}{
		"all is known":                           {exactly(30), exactly(60), [3]string{}, [3]bool{}},
		"nothing is known of what runs":          {assumed(30), exactly(60), [3]string{"x", "x", ""}, [3]bool{}},
		"nothing is known of what goes before":   {exactly(30), assumed(60), [3]string{"", "a", ""}, [3]bool{}},
		"nothing is known of both":               {assumed(30), assumed(60), [3]string{"x", "a", ""}, [3]bool{}},
		"little is known of what runs":           {rough(30), exactly(60), [3]string{}, [3]bool{true, true, false}},
		"little is known of what goes before":    {exactly(30), rough(60), [3]string{}, [3]bool{false, true, false}},
		"little is known of one, nothing of one": {rough(30), assumed(60), [3]string{"", "a", ""}, [3]bool{true, true, false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(model string, job outlook.Waiting) outlook.Waiting {
				job.Needs[0].Models = []string{model}
				return job
			}
			in := &outlook.Input{
				Now: now, Draws: 3, Nodes: append(nodes(1), outlook.Node{Model: "a100", Percent: 800}),
				Running: []outlook.Running{runs("x", 0, 8, test.running), runs("y", 1, 8, exactly(10))},
				Waiting: []outlook.Waiting{of("h100", waits("a", 1, 8, test.waiting)), of("h100", waits("b", 1, 8, exactly(1))), of("a100", waits("c", 1, 8, exactly(1)))},
			}
			for i, e := range outlook.Estimates(in) {
				if e.Assumed != test.assumed[i] || e.Rough != test.rough[i] {
					t.Errorf("%s: assumed for %q, rough: %t; want %q, %t", e.Key, e.Assumed, e.Rough, test.assumed[i], test.rough[i])
				}
			}
		})
	}
}

// A gang needs two nodes. What ends on one of them, before the last that has to end, counts as well.
func TestAllThatHasToEndCounts(t *testing.T) {
	t.Parallel()
	first := exactly(10)
	first.Assumed = first.Bound
	in := &outlook.Input{
		Now: now, Draws: 3, Nodes: nodes(2), Running: []outlook.Running{runs("first", 0, 8, first), runs("last", 1, 8, exactly(30))},
		Waiting: []outlook.Waiting{waits("gang", 2, 8, exactly(1))},
	}
	if e := outlook.Estimates(in)[0]; e.Behind != "last" || e.Assumed != "first" {
		t.Errorf("behind %q, assumed for %q", e.Behind, e.Assumed)
	}
}

func TestWhoPassesOthersOfItsQueueIsKnown(t *testing.T) {
	t.Parallel()
	in := func(queue string, job outlook.Waiting) outlook.Waiting {
		job.Queue = queue
		return job
	}
	large, small := waits("large", 2, 8, exactly(60)), waits("small", 1, 8, exactly(30))
	tests := map[string]struct {
		waiting []outlook.Waiting
		want    []bool
	}{
		"it is behind one that waits for more":    {[]outlook.Waiting{in("a", large), in("a", small)}, []bool{false, true}},
		"it is before one that waits for more":    {[]outlook.Waiting{in("a", small), in("a", large)}, []bool{false, false}},
		"the one before it is in another queue":   {[]outlook.Waiting{in("b", large), in("a", small)}, []bool{false, false}},
		"it starts after the one before it":       {[]outlook.Waiting{in("a", large), in("a", waits("long", 1, 8, exactly(90)))}, []bool{false, false}},
		"others of its queue have started before": {[]outlook.Waiting{in("a", waits("tiny", 1, 1, exactly(1))), in("a", large), in("a", waits("also", 1, 1, exactly(1)))}, []bool{false, false, true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			future := &outlook.Input{Now: now, Draws: 3, Booked: 1, Nodes: nodes(2), Running: []outlook.Running{runs("x", 0, 8, exactly(30))}, Waiting: test.waiting}
			for i, e := range outlook.Estimates(future) {
				if e.Passes != test.want[i] {
					t.Errorf("%s passes others: %t", e.Key, e.Passes)
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
