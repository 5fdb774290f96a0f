// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

func TestTheInteriorPointMethodFindsValueAndPrices(t *testing.T) {
	// Maximise 3a + 2b with a + b ≤ 4 and a + 3b ≤ 6 and a ≤ 3: a = 3, b = 1.
	p := &program{limits: []float64{4, 6, 3}}
	p.add(3, []entry{{0, 1}, {1, 1}, {2, 1}})
	p.add(2, []entry{{0, 1}, {1, 3}})
	value, prices, err := p.solve()
	if err != nil || !near(value, 11) {
		t.Fatalf("got %g, %v, want 11", value, err)
	}
	if total := 4*prices[0] + 6*prices[1] + 3*prices[2]; !near(total, 11) {
		t.Errorf("prices %v are worth %g, want 11", prices, total)
	}
}

// gonum's simplex finds the same values, but no prices.
func TestTheInteriorPointMethodAgreesWithTheSimplexMethod(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for trial := range 20 {
		t.Run(fmt.Sprint("trial ", trial), func(t *testing.T) {
			p := randomProgram(random, 5+random.IntN(10), 30)
			got, _, err := p.solve()
			if err != nil {
				t.Fatal(err)
			}
			if want := simplex(t, p); math.Abs(got-want) > 1e-6*want {
				t.Errorf("got %.9g, the simplex method finds %.9g", got, want)
			}
		})
	}
}

// randomProgram has a limit for every column.
func randomProgram(random *rand.Rand, rows, columns int) *program {
	p := &program{}
	for range rows {
		p.limits = append(p.limits, 1+100*random.Float64())
	}
	for range columns {
		entries := []entry{{row: random.IntN(rows), amount: 1}}
		for row := range rows {
			if row != entries[0].row && random.IntN(4) == 0 {
				entries = append(entries, entry{row: row, amount: 0.1 + random.Float64()})
			}
		}
		p.add(random.Float64(), entries)
	}
	return p
}

// simplex starts from all slack columns.
func simplex(t *testing.T, p *program) float64 {
	t.Helper()
	rows, columns := len(p.limits), len(p.columns)
	a := mat.NewDense(rows, columns+rows, nil)
	c := make([]float64, columns+rows)
	for j, entries := range p.columns {
		c[j] = -p.values[j]
		for _, e := range entries {
			a.Set(e.row, j, e.amount)
		}
	}
	slack := make([]int, rows)
	for row := range rows {
		slack[row] = columns + row
		a.Set(row, slack[row], 1)
	}
	value, _, err := lp.Simplex(c, a, p.limits, 1e-10, slack)
	if err != nil {
		t.Fatal(err)
	}
	return -value
}
