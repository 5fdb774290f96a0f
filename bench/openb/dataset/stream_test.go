// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"math"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestAStreamAsksForItsLoad(t *testing.T) {
	pods := []Pod{timed("a", placement.Shape{GPUs: 1}, 100), timed("b", placement.Shape{Share: 50}, 300)}
	s, err := NewStream(pods, nil, 10*placement.Card, 0.5, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The work of a job is (100 s · 100 % + 300 s · 50 %) / 2 = 12,500 on average; the
	// demand is 500 % if one arrives every 25 s.
	if s.interval != 25 {
		t.Errorf("a job comes every %g s, want 25", s.interval)
	}
	now, work := 0.0, 0.0
	for range 20_000 {
		one := s.Next(now)
		now = one.Arrived
		work += one.Duration * float64(one.Pod.Shape.Percent())
	}
	if load := work / now / (10 * placement.Card); math.Abs(load-0.5) > 0.02 {
		t.Errorf("the load is %.3f, want 0.5", load)
	}
}

func TestPodsWithoutTimesRunAsLongAsOthers(t *testing.T) {
	s, err := NewStream([]Pod{timed("a", placement.Shape{GPUs: 1}, 0)},
		[]Pod{timed("x", placement.Shape{Share: 10}, 100), timed("y", placement.Shape{Share: 20}, 300)}, placement.Card, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]bool{}
	for range 100 {
		one := s.Next(0)
		seen[one.Duration] = true
		if one.Pod.Name != "a" {
			t.Fatalf("Pod %s comes", one.Pod.Name)
		}
	}
	if len(seen) != 2 || !seen[100] || !seen[300] {
		t.Errorf("durations %v, want 100 and 300", seen)
	}
}

// timed is a Pod that runs for some seconds.
func timed(name string, shape placement.Shape, seconds int64) Pod {
	return Pod{Name: name, Shape: shape, Deleted: seconds}
}
