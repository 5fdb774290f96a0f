// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestALineupHasWhoWaitsInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	const jobs = 200
	line, want := newLineup(jobs), map[int]bool{}
	for range 2000 {
		rank := random.IntN(jobs)
		if want[rank] {
			line.remove(rank)
			delete(want, rank)
		} else {
			line.add(rank)
			want[rank] = true
		}
		after, next := random.IntN(jobs+1), -1
		for other := after; other < jobs && next < 0; other++ {
			if want[other] {
				next = other
			}
		}
		if got := line.from(after); got != next {
			t.Fatalf("got %d from %d on, want %d", got, after, next)
		}
	}
}

func TestWhoComesGoesAfterAllWhoseTurnIsNotLater(t *testing.T) {
	t.Parallel()
	in := &Input{
		Waiting: []Waiting{{Key: "a", Turn: 1}, {Key: "b", Turn: 5}, {Key: "c", Turn: 5}, {Key: "d", Turn: 3}},
		Scenarios: [][]Coming{{
			{After: 3 * time.Second, Waiting: Waiting{Key: "x", Turn: 5}}, {After: time.Second, Waiting: Waiting{Key: "y", Turn: 5}},
			{After: time.Second, Waiting: Waiting{Key: "z", Turn: 4}},
		}},
	}
	p := prepare(in)
	var got []string
	for _, job := range p.byRank {
		got = append(got, p.jobs[job].Key)
	}
	if want := []string{"a", "z", "b", "c", "d", "y", "x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheFirstOpeningsAreChosen(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		all := make([]opening, 1+random.IntN(40))
		most := 1 + random.IntN(len(all))
		chosen := &firstOpenings{most: most}
		for i := range all {
			all[i] = opening{at: time.Duration(random.IntN(10)), node: random.IntN(10)}
			full := chosen.full(all[i])
			before := slices.Clone(chosen.list)
			if chosen.add(all[i]); full && !slices.Equal(before, chosen.list) {
				t.Fatalf("%v was added to %v, which was full", all[i], before)
			}
		}
		order := func(a, b opening) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node)) }
		slices.SortFunc(all, order)
		if last := chosen.list[0]; last != all[most-1] {
			t.Fatalf("the last one is %v, want %v", last, all[most-1])
		}
		slices.SortFunc(chosen.list, order)
		if !slices.Equal(chosen.list, all[:most]) {
			t.Fatalf("got %v, want %v", chosen.list, all[:most])
		}
	}
}
