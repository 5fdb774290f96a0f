// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"
	"testing"
)

func TestGPUsWithoutCPUAreStranded(t *testing.T) {
	t.Parallel()
	// Requests have 10 cores per GPU on average; a GPU needs at least 5.
	tests := map[string]struct {
		cpu  int64
		free []int
		want float64
	}{
		"enough CPU":                  {40000, []int{100, 100, 100, 100}, 0},
		"just enough":                 {20000, []int{100, 100, 100, 100}, 0},
		"5 cores are short: one GPU":  {15000, []int{100, 100, 100, 100}, 1},
		"no CPU at all":               {0, []int{100, 100, 100, 100}, 4},
		"half a GPU without CPU":      {0, []int{50}, 0.5},
		"half a GPU with half of it":  {1250, []int{50}, 0.25},
		"a full node needs none":      {0, []int{0, 0}, 0},
		"a node without GPUs as well": {0, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := New(Parameters{Tightness: 0.5, Smoothing: 0.0001, HalfLife: 1})
			p.learned.cpuPerPercent = 100
			if got := p.stranded(stateOf(t, test.cpu, test.free...)); !near(got, test.want, 0.001) {
				t.Errorf("%v GPUs are stranded, want %v", got, test.want)
			}
		})
	}
}

func TestStrandingSetsInGently(t *testing.T) {
	t.Parallel()
	p := New(Default())
	last := math.Inf(1)
	for cpu := int64(0); cpu <= 128000; cpu += 4000 {
		got := p.stranded(stateOf(t, cpu, 100, 100, 100, 100, 100, 100, 100, 100))
		if !(got >= 0 && got <= 8 && got <= last) {
			t.Fatalf("with %dm CPU %v GPUs are stranded, with less %v", cpu, got, last)
		}
		last = got
	}
	p.learned.cpuPerPercent = 0
	if got := p.stranded(stateOf(t, 0, 100)); got != 0 {
		t.Errorf("nobody needs CPU, but %v GPUs are stranded", got)
	}
}

func TestSoftplusIsARoundedCorner(t *testing.T) {
	t.Parallel()
	for _, width := range []float64{1, 5000} {
		if got, want := softplus(0, width), width*math.Ln2; !near(got, want, 1e-9*width) {
			t.Errorf("at the corner %v, want %v", got, want)
		}
		for x := -40.0; x <= 40; x += 0.25 {
			got := softplus(x*width, width)
			if low := max(0, x*width); got < low || got > low+width*math.Ln2*(1+1e-9) {
				t.Errorf("softplus of %v with %v is %v", x*width, width, got)
			}
		}
		if got := softplus(1e9*width, width); got != 1e9*width {
			t.Errorf("far above it is %v", got)
		}
		if got := softplus(-1e9*width, width); got != 0 {
			t.Errorf("far below it is %v", got)
		}
	}
}
