// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// requests returns a number of different requests.
func requests(t *testing.T, count int) []*placement.Request {
	t.Helper()
	c := clusterOf(t, New(Default()))
	list := make([]*placement.Request, count)
	for i := range list {
		list[i] = c.Request(whole(1, i+1))
	}
	return list
}

func weightOf(m *Mix, r *placement.Request) float64 {
	for _, one := range m.Popular() {
		if one.Request == r {
			return one.Weight
		}
	}
	return 0
}

func TestARequestCountsHalfAfterAHalfLife(t *testing.T) {
	t.Parallel()
	r := requests(t, 2)
	m := NewMix(10)
	m.Add(r[0])
	before := weightOf(m, r[0])
	for i, want := range []float64{before / 2, before / 4, before / 8} {
		for range 10 {
			m.Add(r[1])
		}
		if got := weightOf(m, r[0]); !near(got, want, 1e-9) {
			t.Errorf("after %d half-lives it counts %v, want %v", i+1, got, want)
		}
	}
}

func TestThePopularRequestsComeFirst(t *testing.T) {
	t.Parallel()
	r := requests(t, 4)
	m := NewMix(1e9)
	for _, i := range []int{2, 0, 1, 1, 3, 3, 1, 2} {
		m.Add(r[i])
	}
	want := []int{1, 3, 2, 0} // 3 and 2 are equally frequent, but one 2 is long ago
	for at, one := range m.Popular() {
		if one.Request != r[want[at]] {
			t.Errorf("place %d has %s, want %s", at, one.Request.String(), r[want[at]].String())
		}
	}
	if m.Seen() != 8 {
		t.Errorf("%d were seen, want 8", m.Seen())
	}
}

func TestOfEquallyPopularRequestsTheFirstSeenIsFirst(t *testing.T) {
	t.Parallel()
	r := requests(t, 5)
	m := NewMix(100)
	for _, i := range []int{3, 1, 4, 0, 2} {
		m.AddWeight(r[i], 2)
	}
	for at, one := range m.Popular() {
		if want := r[[]int{3, 1, 4, 0, 2}[at]]; one.Request != want {
			t.Errorf("place %d has %s, want %s", at, one.Request.String(), want.String())
		}
	}
}

// TestWeightsStayRightForEver adds enough to rescale the weights many times, and
// compares with the sum over all ages.
func TestWeightsStayRightForEver(t *testing.T) {
	t.Parallel()
	const halfLife, many = 3.0, 2000
	r := requests(t, 3)
	m := NewMix(halfLife)
	want := make([]float64, len(r))
	for i := range many {
		m.Add(r[i*i%3])
		want[i*i%3] += math.Exp2(-float64(many-i) / halfLife)
	}
	for i := range r {
		if got := weightOf(m, r[i]); !near(got, want[i], 1e-6) {
			t.Errorf("request %d counts %v, want %v", i, got, want[i])
		}
	}
	if m.unit > 1e9*m.growth {
		t.Errorf("the unit has grown to %v", m.unit)
	}
}

func TestAPriorCountsAsManyRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, 2)
	m := NewMix(20)
	for range 300 {
		m.Add(r[0])
	}
	m.AddWeight(r[1], 7)
	if got := weightOf(m, r[1]); !near(got, 7, 1e-9) {
		t.Errorf("the prior counts %v, want 7", got)
	}
	if m.Seen() != 300 {
		t.Errorf("%d were seen, want 300: a prior was not", m.Seen())
	}
}

func TestAnEmptyMixHasNothing(t *testing.T) {
	t.Parallel()
	if got := NewMix(1).Popular(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestTheMixCountsWhatIsExpectedToEnd(t *testing.T) {
	t.Parallel()
	r := requests(t, 1)[0]
	m := NewMix(10)
	m.Add(r)
	for range 10 {
		m.AddEnding(r)
	}
	if m.Seen() != 11 {
		t.Errorf("%d were seen, want 11", m.Seen())
	}
	all := m.Popular()[0]
	if all.Weight <= all.Ending || !near(all.Weight-all.Ending, 0.5, 0.05) {
		t.Errorf("%v of %v are expected to end: want all but the first one, which counts half by now", all.Ending, all.Weight)
	}
	m.rescale()
	if after := m.Popular()[0]; !near(after.Ending, all.Ending, 1e-9) {
		t.Errorf("rescaled, %v are expected to end, want %v", after.Ending, all.Ending)
	}
}

// Anybody may ask for something else with each Pod.
func TestTheMixIsBoundedAndTheRarestGoFirst(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, shape := range map[string]func(i int) placement.Shape{
		"many":  func(i int) placement.Shape { return placement.Shape{CPU: int64(i + 1)} },
		"large": func(i int) placement.Shape { return placement.Shape{GPUs: 1, Pool: fmt.Sprint(long, i)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, New(Default()))
			often, m := c.Request(whole(1, 1)), NewMix(Default().HalfLife)
			for range 10 {
				m.Add(often)
			}
			for i := range 10_000 {
				m.Add(c.Request(shape(i)))
				if len(m.order) > mostRequests || m.size > mostSize {
					t.Fatalf("%d requests of %d bytes are remembered", len(m.order), m.size)
				}
				if i%1000 == 0 {
					c.SweepRequests(m.has)
				}
			}
			if m.Popular()[0].Request != often || !m.has(c.Request(shape(9999))) {
				t.Error("the most frequent request is forgotten, or the last one")
			}
			sum := 0
			for _, one := range m.order {
				sum += one.Request.Size()
			}
			if sum != m.size || len(m.entries) != len(m.order) {
				t.Errorf("the size is %d, want %d; %d entries, want %d", m.size, sum, len(m.entries), len(m.order))
			}
		})
	}
}
