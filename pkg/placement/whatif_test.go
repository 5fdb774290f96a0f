// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// without returns the world after some Pods have ended.
func (w *world) without(pods ...string) *world {
	other := *w
	other.pods = slices.DeleteFunc(slices.Clone(w.pods), func(p placement.Pod) bool { return slices.Contains(pods, p.Name) })
	return &other
}

// fits reports whether a gang fits, according to the oracle.
func (w *world) fits(gang *placement.Gang) bool { return newMoveOracle(w, gang).possible(0) }

func TestWhatIfNamesTheEarliestEndsThatMakeRoomAndNoOthers(t *testing.T) {
	verdicts := map[placement.Verdict]int{}
	for seed := range uint64(6000) {
		w, gang := randomWorld(seed)
		rng := rand.New(rand.NewPCG(seed, 3))
		var ends []placement.End
		for _, pod := range w.pods {
			if rng.IntN(5) > 0 {
				ends = append(ends, placement.End{Pod: pod.Name, After: time.Duration(rng.IntN(6)) * time.Minute})
			}
		}
		outlook, err := w.cluster(t).WhatIf(gang, ends)
		if err != nil {
			t.Fatal(err)
		}
		verdicts[outlook.Verdict]++
		want := wantedVerdict(w, gang, ends, outlook.After)
		if outlook.Verdict != want {
			t.Errorf("seed %d: %v, the oracle says %v: %+v", seed, outlook.Verdict, want, outlook)
		}
		if outlook.Verdict != placement.FitsAfter {
			continue
		}
		if !w.without(outlook.Pods...).fits(gang) {
			t.Errorf("seed %d: does not fit when %v have ended", seed, outlook.Pods)
		}
		for i := range outlook.Pods {
			if fewer := slices.Delete(slices.Clone(outlook.Pods), i, i+1); w.without(fewer...).fits(gang) {
				t.Errorf("seed %d: %v suffice, %v are said to be needed", seed, fewer, outlook.Pods)
			}
		}
	}
	t.Logf("verdicts: %v", verdicts)
}

// wantedVerdict returns the verdict of the oracle, according to which the gang must not
// fit before the predicted time.
func wantedVerdict(w *world, gang *placement.Gang, ends []placement.End, after time.Duration) placement.Verdict {
	var earlier, all, running []string
	for _, end := range ends {
		all = append(all, end.Pod)
		if end.After < after {
			earlier = append(earlier, end.Pod)
		}
	}
	for _, pod := range w.pods {
		running = append(running, pod.Name)
	}
	switch {
	case w.without(earlier...).fits(gang):
		return placement.FitsNow
	case w.without(all...).fits(gang):
		return placement.FitsAfter
	case w.without(running...).fits(gang):
		return placement.FitsEventually
	}
	return placement.FitsNever
}

func TestWhatIfIgnoresPodsThatDoNotRunAndThoseThatDoNotMatter(t *testing.T) {
	w := newWorld()
	w.node("a", 4, 100)
	w.node("b", 4, 100)
	w.run("small", "a", gpusEach(1), 0)
	w.run("large", "b", gpusEach(4), 0, 1, 2, 3)
	c := w.cluster(t)
	ends := []placement.End{{Pod: "gone", After: time.Second}, {Pod: "large", After: time.Minute}, {Pod: "small", After: time.Hour}}
	outlook, err := c.WhatIf(loneGang(gpusEach(4)), ends)
	if err != nil {
		t.Fatal(err)
	}
	if outlook.Verdict != placement.FitsAfter || outlook.After != time.Minute || !slices.Equal(outlook.Pods, []string{"large"}) {
		t.Errorf("got %+v", outlook)
	}
	if outlook.Plan == nil || outlook.Plan.Members[0].Node != "b" {
		t.Errorf("planned %+v", outlook.Plan)
	}
}

func TestWhatIfConsolidateAndPackLeaveTheClusterAsItWas(t *testing.T) {
	for seed := range uint64(300) {
		w, gang := randomWorld(seed)
		c := w.cluster(t)
		look := func() any {
			plan, fits, err := c.Plan(gang)
			one, found := c.Find(c.Request(gpusEach(1)), c.Root())
			return []any{plan, fits, err, one, found}
		}
		before := look()
		if _, err := c.WhatIf(gang, []placement.End{{Pod: "p0"}, {Pod: "p1"}}); err != nil {
			t.Fatal(err)
		}
		first, _, _ := c.Consolidate(gang, w.rules())
		packing, _ := c.Pack(placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.7})
		if after := look(); !reflect.DeepEqual(before, after) {
			t.Fatalf("seed %d: plans %+v, and before %+v", seed, after, before)
		}
		// The same input has the same output, on this cluster and on another one.
		for _, other := range []*placement.Cluster{c, w.cluster(t)} {
			again, _, _ := other.Consolidate(gang, w.rules())
			packed, _ := other.Pack(placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.7})
			if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(packing, packed) {
				t.Fatalf("seed %d: another answer to the same question:\n%+v\n%+v", seed, first, again)
			}
		}
	}
}

func BenchmarkWhatIf(b *testing.B) {
	c, _ := fragmented(b, 1000)
	var ends []placement.End
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 1000 {
		for n := range 20 {
			ends = append(ends, placement.End{Pod: podName(i, n), After: time.Duration(rng.IntN(100000)) * time.Second})
		}
	}
	gang := loneGang(placement.Shape{CPU: 32, Memory: 64000, GPUs: 8})
	for b.Loop() {
		outlook, err := c.WhatIf(gang, ends)
		if err != nil || outlook.Verdict != placement.FitsAfter {
			b.Fatalf("got %+v, error %v", outlook, err)
		}
	}
}
