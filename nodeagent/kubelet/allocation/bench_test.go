// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"testing"
)

// hardest are the nodes with 16 devices on which the most choices are as good as
// the best one, or nearly so.
func hardest(tb testing.TB) map[string]*Topology {
	tb.Helper()
	return map[string]*Topology{
		"irregular": irregular(tb, 16), "ring": ring(tb, 16), "torus": torus(tb),
		"hypercube": hypercube(tb, 16), "scattered": scattered(tb, 16),
	}
}

// TestSearchIsExhaustive makes sure that the bound on the work is not reached
// where the choice is promised to be optimal.
func TestSearchIsExhaustive(t *testing.T) {
	t.Parallel()
	for name, topology := range hardest(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= 16; size++ {
				for promised := range 3 {
					states, err := topology.states(Request{Available: all(16), Avoid: all(3 * promised), Size: size})
					if err != nil {
						t.Fatal(err)
					}
					s := newSearch(topology, states, size)
					s.run()
					if s.work >= maxWork {
						t.Errorf("the search for %d of 16 devices ended early", size)
					}
				}
			}
		})
	}
}

// TestTheWorkIsAllThatThereIs would notice work that is not counted, if it needs
// memory: choices that are as good as the best one, of which there are thousands,
// need none.
func TestTheWorkIsAllThatThereIs(t *testing.T) {
	for name, topology := range hardest(t) {
		request := Request{Available: all(16), Size: 8}
		allocations := testing.AllocsPerRun(10, func() {
			if _, err := topology.Choose(request); err != nil {
				t.Error(err)
			}
		})
		if allocations > 300 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

func TestALargeNodeGetsAValidChoice(t *testing.T) {
	t.Parallel()
	topology := irregular(t, 64)
	got, err := topology.Choose(Request{Available: all(64), Must: ids(63), Avoid: ids(0), Size: 32})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 32 || got[31] != "63" || got[0] == "0" {
		t.Errorf("Choose() = %v", got)
	}
}

func BenchmarkChoose(b *testing.B) {
	nodes := []struct {
		name string
		node *Topology
	}{
		{"pairs8", pairs(b, 8)}, {"pairs16", pairs(b, 16)},
		{"switched8", switched(b, 8)}, {"switched16", switched(b, 16)},
		{"plain16", plain(b, 16)}, {"plain256", plain(b, 256)},
		{"mesh8", cubeMesh(b)}, {"irregular16", irregular(b, 16)}, {"irregular64", irregular(b, 64)},
		{"ring16", ring(b, 16)}, {"torus16", torus(b)}, {"hypercube16", hypercube(b, 16)}, {"scattered16", scattered(b, 16)},
		{"plain10000", plain(b, 10000)},
	}
	for _, one := range nodes {
		n := one.node.Len()
		for _, size := range []int{1, n / 4, n / 2, n - 1} {
			b.Run(fmt.Sprintf("%s/%d", one.name, size), func(b *testing.B) {
				request := Request{Available: all(n), Size: size}
				for b.Loop() {
					if _, err := one.node.Choose(request); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
