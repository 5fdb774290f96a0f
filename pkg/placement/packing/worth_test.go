// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// asked returns a demand, by the percentage of a card.
func asked(often map[int]float64) []float64 {
	demand := make([]float64, placement.Card+1)
	for size, count := range often {
		demand[size] = count
	}
	return demand
}

func TestTheWorthOfARestIsWhatCanBeDoneWithIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		demand map[int]float64
		want   map[int]float64 // by what is free
	}{
		"nothing is asked for: a rest is worth what it is": {
			nil, map[int]float64{0: 0, 1: 0.01, 50: 0.5, 99: 0.99}},
		"halves": {
			map[int]float64{50: 7}, map[int]float64{0: 0, 49: 0, 50: 0.5, 99: 0.5}},
		"four fifths: nobody needs the fifth that stays": {
			map[int]float64{81: 3}, map[int]float64{19: 0, 80: 0, 81: 1, 99: 1}},
		"thirds": {
			map[int]float64{30: 1}, map[int]float64{10: 0, 29: 0, 30: 1. / 3, 59: 1. / 3, 60: 2. / 3, 90: 1}},
		"the smallest share": {
			map[int]float64{1: 1}, map[int]float64{1: 0.01, 37: 0.37, 99: 0.99}},
		"whole cards only": {
			map[int]float64{100: 5}, map[int]float64{1: 0, 99: 0}},
		"halves and whole cards": {
			map[int]float64{50: 1, 100: 9}, map[int]float64{49: 0, 50: 0.5, 99: 0.5}},
		// x of 60 and y of 40: x + y ≤ 1 and 2y ≤ 1. What is rare decides.
		"more of 40 than can go beside 60": {
			map[int]float64{60: 1, 40: 3}, map[int]float64{39: 0, 40: 0.5, 60: 0.5, 79: 0.5, 80: 1}},
		"more of 60 than of 40, which is for free": {
			map[int]float64{60: 3, 40: 1}, map[int]float64{40: 0, 59: 0, 60: 1, 80: 1}},
		// 81 + 19 = 100, and five of 19 are a card.
		"few of 19 beside many of 81 are for free": {
			map[int]float64{81: 10, 19: 1}, map[int]float64{19: 0, 38: 0, 81: 1}},
		"many of 19 make the rest of 81 worth a fifth": {
			map[int]float64{81: 1, 19: 20}, map[int]float64{18: 0, 19: 0.2, 38: 0.4, 57: 0.6, 81: 0.8}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newWorth(asked(test.demand))
			if got[placement.Card] != 1 {
				t.Errorf("a card is worth %v, want 1", got[placement.Card])
			}
			for free, want := range test.want {
				if !near(got[free], want, 0.01) {
					t.Errorf("%d percent are worth %v, want %v", free, got[free], want)
				}
			}
		})
	}
}

// checkWorth checks what holds for every demand.
func checkWorth(t *testing.T, w *worth, demand []float64) {
	t.Helper()
	if w[0] != 0 || w[placement.Card] != 1 {
		t.Fatalf("demand %v: nothing is worth %v and a card %v", demand, w[0], w[placement.Card])
	}
	smallest := 1
	for smallest < placement.Card && demand[smallest] == 0 {
		smallest++
	}
	for free := 1; free <= placement.Card; free++ {
		if !(w[free] >= w[free-1] && w[free] <= 1) { // NaN as well
			t.Fatalf("demand %v: %d percent are worth %v, one less %v", demand, free, w[free], w[free-1])
		}
		if free < smallest && w[free] != 0 {
			t.Fatalf("demand %v: %d percent are worth %v, but nobody asks for so little", demand, free, w[free])
		}
		for part := 1; part < free; part++ {
			if w[part]+w[free-part] > w[free]+1e-9 {
				t.Fatalf("demand %v: %d and %d percent are worth more than both together", demand, part, free-part)
			}
		}
	}
}

func TestAnyWorthIsMonotoneAndNeverMoreThanACard(t *testing.T) {
	t.Parallel()
	for size := 1; size <= placement.Card; size++ {
		demand := asked(map[int]float64{size: 0.3})
		checkWorth(t, newWorth(demand), demand)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 25 {
		demand := make([]float64, placement.Card+1)
		for range 1 + random.IntN(8) {
			demand[1+random.IntN(placement.Card)] += random.ExpFloat64()
		}
		checkWorth(t, newWorth(demand), demand)
	}
}

// TestPricesOfTwoSizesAreTheBest compares with the corners of the polygon of all
// prices: for each pattern of i small and j large shares i·x + j·y ≤ 1.
func TestPricesOfTwoSizesAreTheBest(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	worst := 1.0
	for range 40 {
		small := 5 + random.IntN(45)
		large := small + 1 + random.IntN(placement.Card-small)
		ofSmall, ofLarge := random.ExpFloat64(), random.ExpFloat64()
		w := newWorth(asked(map[int]float64{small: ofSmall, large: ofLarge}))
		got := ofSmall*w[small] + ofLarge*w[large]
		want := 0.0
		eachCorner(small, large, func(x, y float64) { want = max(want, ofSmall*x+ofLarge*y) })
		worst = min(worst, got/want)
		if got < 0.97*want || got > 1.000001*want {
			t.Errorf("%v of %d and %v of %d: the demand is worth %v, could be %v", ofSmall, small, ofLarge, large, got, want)
		}
	}
	t.Logf("the worst prices are %.2f %% of the best", 100*worst)
}

// eachCorner calls do with the corners of the polygon.
func eachCorner(small, large int, do func(x, y float64)) {
	type line struct{ i, j, limit float64 }
	lines := []line{{1, 0, 0}, {0, 1, 0}}
	for j := 0; j*large <= placement.Card; j++ {
		lines = append(lines, line{float64((placement.Card - j*large) / small), float64(j), 1})
	}
	for a := range lines {
		for b := range a {
			p, q := lines[a], lines[b]
			determinant := p.i*q.j - p.j*q.i
			if determinant == 0 {
				continue
			}
			x, y := (p.limit*q.j-p.j*q.limit)/determinant, (p.i*q.limit-p.limit*q.i)/determinant
			inside := x > -1e-9 && y > -1e-9
			for _, one := range lines[2:] {
				inside = inside && one.i*x+one.j*y <= 1+1e-9
			}
			if inside {
				do(x, y)
			}
		}
	}
}
