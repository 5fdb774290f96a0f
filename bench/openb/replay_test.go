// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// replay verifies its own log, so that these replays check all placements.
func TestAllPoliciesReplayTheTinyTrace(t *testing.T) {
	w := tiny(t)
	for _, e := range []entrant{
		{policy: ours, ties: byName, mix: learned},
		{policy: ours, ties: byPublished, mix: known},
		{policy: fgd, ties: byPublished, mix: known},
		{policy: fgd, ties: byLot, mix: learned},
		{policy: bestFit, ties: byPublished},
		{policy: bestFit, ties: byLot},
		{policy: dotProd, ties: byName},
		{policy: random},
	} {
		t.Run(e.policy+", ties by "+e.ties, func(t *testing.T) {
			first, err := w.replay(&e, 42)
			if err != nil {
				t.Fatal(err)
			}
			if got := first.at(130); got < 60 || got > 100 {
				t.Errorf("%.2f %% allocated at 130 %% demand", got)
			}
			again, err := w.replay(&e, 42)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.records, again.records); diff != "" {
				t.Errorf("the same seed places otherwise (-first +again):\n%s", diff)
			}
		})
	}
}

func TestAPodThatFitsNowhereIsDropped(t *testing.T) {
	w := &workload{nodes: oneNode(1), pods: []dataset.Pod{share("a", 60), share("b", 60)}, capacity: placement.Card}
	e := entrant{policy: bestFit, ties: byName}
	result, err := w.replay(&e, 42)
	if err != nil {
		t.Fatal(err)
	}
	placed := slices.DeleteFunc(slices.Clone(result.records), func(r record) bool { return r.Node == "" })
	if len(placed) != 1 || placed[0].Pod != result.arrivals[0].Name {
		t.Errorf("placed %v, want the first arrival only", placed)
	}
}

func TestTheAllocationAtADemandIsTheAverageOfItsArrivals(t *testing.T) {
	o := outcome{sums: map[int]float64{95: 190, 100: 99}, counts: map[int]int{95: 2, 100: 1}}
	for demand, want := range map[int]float64{94: 0, 95: 95, 97: 95, 100: 99} {
		if got := o.at(demand); got != want {
			t.Errorf("at %d %%: got %g, want %g", demand, got, want)
		}
	}
}

func TestTiesByPublishedNamesLogTheNamesOfTheFile(t *testing.T) {
	w := tiny(t)
	result, err := w.replay(&entrant{policy: fgd, ties: byPublished, mix: known}, 42)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range result.records {
		if r.Node != "" && !slices.ContainsFunc(w.nodes, func(n placement.Node) bool { return n.Name == r.Node }) {
			t.Fatalf("Pod %s is on node %q", r.Pod, r.Node)
		}
	}
}

func TestAWorkloadNeedsGPUs(t *testing.T) {
	idle := write(t, podHeader+"a,1000,512,0,0,\n")
	if _, err := readWorkload(tinyNodes, idle); err == nil || !strings.Contains(err.Error(), "--trace") {
		t.Errorf("got %v, want that no Pod asks for a GPU", err)
	}
	bare := write(t, "sn,cpu_milli,memory_mib,gpu,model\na,1000,512,0,\n")
	if _, err := readWorkload(bare, tinyTrace); err == nil || !strings.Contains(err.Error(), "--nodes") {
		t.Errorf("got %v, want that no node has a GPU", err)
	}
}

const podHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
