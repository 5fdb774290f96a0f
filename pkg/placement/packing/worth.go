// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// worth is what the rest of a card is worth, in cards, by its free percentage: the last
// 19 percent of a card are useless if no request is that small. It is the dual of filling
// cards with patterns of shares: the prices of shares that maximise the value of the
// demand, under the condition that no pattern of shares that fits on a card costs more
// than a card.
type worth [placement.Card + 1]float64

// proportional returns the worth of rests before anything is known.
func proportional() *worth {
	var w worth
	for free := range w {
		w[free] = float64(free) / placement.Card
	}
	return &w
}

// priceIterations is the number of steps after which the prices no longer move.
const priceIterations = 1000

// newWorth prices shares by the demand for each size, with a subgradient ascent (Shor)
// that maximises the value of the demand divided by the worth of the best filling of a
// card.
func newWorth(demand []float64) *worth {
	var sizes []int
	for size := 1; size <= placement.Card; size++ {
		if demand[size] > 0 {
			sizes = append(sizes, size)
		}
	}
	if len(sizes) == 0 {
		return proportional()
	}
	a := ascent{sizes: sizes, demand: demand, prices: make([]float64, len(sizes))}
	for i, size := range sizes {
		a.prices[i] = float64(size) / placement.Card
	}
	best := a.run()
	best[placement.Card] = 1
	return best
}

// ascent looks for the prices.
type ascent struct {
	sizes  []int
	demand []float64 // by size
	prices []float64 // by index of sizes
	filled worth     // what a rest is worth under the prices
	last   [placement.Card + 1]int
}

func (a *ascent) run() *worth {
	var best worth
	bestValue := -1.0
	for step := 1; step <= priceIterations; step++ {
		a.fill()
		full := a.filled[placement.Card]
		value := 0.0
		for i, size := range a.sizes {
			a.prices[i] /= full
			value += a.demand[size] * a.prices[i]
		}
		if value > bestValue {
			bestValue = value
			for free := range best {
				best[free] = a.filled[free] / full
			}
		}
		a.climb(value, 0.3/math.Sqrt(float64(step)))
	}
	return &best
}

// fill solves the unbounded knapsack of all sizes up to a card.
func (a *ascent) fill() {
	a.last[0] = -1
	for free := 1; free <= placement.Card; free++ {
		a.filled[free], a.last[free] = a.filled[free-1], -1
		for i, size := range a.sizes {
			if size <= free && a.filled[free-size]+a.prices[i] > a.filled[free] {
				a.filled[free], a.last[free] = a.filled[free-size]+a.prices[i], i
			}
		}
	}
}

// climb moves the prices along the gradient: the demand, less what the best filling of a
// card would serve.
func (a *ascent) climb(value, length float64) {
	gradient := make([]float64, len(a.sizes))
	for i, size := range a.sizes {
		gradient[i] = a.demand[size]
	}
	for free := placement.Card; free > 0; {
		i := a.last[free]
		if i < 0 {
			free--
			continue
		}
		gradient[i] -= value
		free -= a.sizes[i]
	}
	norm := 0.0
	for _, g := range gradient {
		norm += g * g
	}
	if norm == 0 {
		return
	}
	for i := range a.prices {
		a.prices[i] = max(0, a.prices[i]+length*gradient[i]/math.Sqrt(norm))
	}
}
