// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMediansAndPercentiles(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2}
	for name, c := range map[string]struct{ got, want float64 }{
		"median of four":  {median(values), 2.5},
		"median of three": {median(values[:3]), 3},
		"median of none":  {median(nil), 0},
		"p50":             {percentile(values, 50), 2},
		"p99":             {percentile(values, 99), 4},
		"p0":              {percentile(values, 0), 1},
		"p99 of none":     {percentile(nil, 99), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

func TestScaledKindsHaveFewerGangsOfTheSameSize(t *testing.T) {
	t.Parallel()
	var got []string
	for _, k := range kinds {
		got = append(got, k.scaled(0.01).String())
	}
	if diff := cmp.Diff([]string{"5×20", "1×500", "100×1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestGangsArriveAtTheRateOnAverage(t *testing.T) {
	t.Parallel()
	k := kind{gangs: 2000, size: 20}
	times := arrivals(k, 100, 1)
	if rate := float64(k.pods()) / times[len(times)-1].Seconds(); math.Abs(rate-100) > 5 {
		t.Errorf("%.1f Pods a second, want 100", rate)
	}
	if !slices.IsSorted(times) || !slices.Equal(times, arrivals(k, 100, 1)) || slices.Equal(times, arrivals(k, 100, 2)) {
		t.Error("they are not in order, or do not depend on the seed alone")
	}
	if at := arrivals(k, 0, 1); slices.Max(at) != 0 {
		t.Errorf("without a rate the last comes at %v", slices.Max(at))
	}
}

// worksOf runs the same job for each Pod of all gangs, and another one when a gang runs.
func worksOf(k kind, do, last job) []work {
	works := make([]work, k.gangs)
	for i, g := range gangsOf(k, "1") {
		works[i] = work{starts: eachPod(g, func(ctx context.Context, _ int) error { return do(ctx) }), last: last}
	}
	return works
}

func TestWorkersDoAllJobsOnce(t *testing.T) {
	t.Parallel()
	var done atomic.Int64
	do := func(context.Context) error { done.Add(1); return nil }
	works := worksOf(kind{gangs: 7, size: 11}, do, do)
	if err := play(t.Context(), works, time.Now(), make([]time.Duration, 7)); err != nil || done.Load() != 77 {
		t.Errorf("%d jobs were done, %v", done.Load(), err)
	}
	complete := make(chan int, 7)
	for i := range works {
		complete <- i
	}
	close(complete)
	if err := finish(t.Context(), works, complete); err != nil || done.Load() != 84 {
		t.Errorf("%d jobs were done in the end, %v", done.Load(), err)
	}
}

func TestTheFirstFailureEndsTheLoad(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(context.Context) error { return broken }
	works := worksOf(kind{gangs: 2, size: 500}, fail, fail)
	if err := play(t.Context(), works, time.Now(), make([]time.Duration, 2)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	complete := make(chan int, 2)
	complete <- 1
	if err := finish(t.Context(), works, complete); !errors.Is(err, broken) {
		t.Errorf("in the end: got %v", err)
	}
}

func TestRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.jsonl")
	want := []record{
		{System: floor, Kind: "500×20", Gangs: 50, Size: 20, outcome: outcome{Seconds: 5, Latencies: []float64{1}}},
		{System: ours, Kind: "500×20", Round: 1, usage: usage{Puts: 7, CPU: map[string]float64{"etcd": 1}}},
	}
	for i := range want {
		if err := appendRecord(path, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readRecords(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{}, outcome{}, usage{})); diff != "" {
		t.Error(diff)
	}
	if rate := floorRate(got, kind{500, 20}); rate != 200 {
		t.Errorf("the floor's rate is %v, want 200", rate)
	}
}
