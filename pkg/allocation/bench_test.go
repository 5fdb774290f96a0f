// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"testing"
)

// TestSearchIsExhaustive makes sure that the bound on the work is not reached
// where the choice is promised to be optimal.
func TestSearchIsExhaustive(t *testing.T) {
	t.Parallel()
	topology := irregular(t, 16)
	for size := 1; size <= 16; size++ {
		states, err := topology.states(Request{Available: all(16), Size: size})
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
