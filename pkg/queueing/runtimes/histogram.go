// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"math"
	"math/rand/v2"
)

const (
	// perDoubling is the number of buckets from a value to its double: a bucket is 19 % wide.
	perDoubling = 4
	// doublings is how many times the smallest value can double: from a second to 97 days.
	doublings = 23
	buckets   = perDoubling*doublings + 1
	// mostCounted is the weight at which a histogram forgets: all counts are halved. Older
	// jobs so count less than recent ones.
	mostCounted = 400
)

// Histogram counts positive numbers in buckets of logarithmic width. It has a fixed size,
// and can be written as JSON. Numbers below the smallest or above the largest bucket count
// there.
type Histogram struct {
	// Smallest is the lower end of the first bucket.
	Smallest float64 `json:"smallest"`
	// Counts are the weights of the buckets, up to the last one that is not empty.
	Counts []float32 `json:"counts,omitempty"`
	// Total is the sum of Counts.
	Total float64 `json:"total,omitempty"`
}

// add counts a number.
func (h *Histogram) add(number float64) {
	at := h.bucket(number)
	for len(h.Counts) <= at {
		h.Counts = append(h.Counts, 0)
	}
	h.Counts[at]++
	h.Total++
	if h.Total >= mostCounted {
		h.halve()
	}
}

func (h *Histogram) halve() {
	h.Total = 0
	for i := range h.Counts {
		h.Counts[i] /= 2
		h.Total += float64(h.Counts[i])
	}
}

// bucket returns the index of a number's bucket.
func (h *Histogram) bucket(number float64) int {
	if number <= h.Smallest {
		return 0
	}
	return min(int(perDoubling*math.Log2(number/h.Smallest)), buckets-1)
}

// value returns the number at a fractional position: 2.5 is in the middle of bucket 2.
func (h *Histogram) value(position float64) float64 {
	return h.Smallest * math.Exp2(position/perDoubling)
}

// position is the inverse of value.
func (h *Histogram) position(number float64) float64 {
	if number <= h.Smallest {
		return 0
	}
	return min(perDoubling*math.Log2(number/h.Smallest), buckets)
}

// above returns the weight of the numbers above a position, a bucket's share of it by the
// part of the bucket that is above.
func (h *Histogram) above(position float64) float64 {
	first := int(position)
	if first >= len(h.Counts) {
		return 0
	}
	sum := float64(h.Counts[first]) * (1 - (position - float64(first)))
	for _, count := range h.Counts[first+1:] {
		sum += float64(count)
	}
	return sum
}

// quantile returns the number that a part of the numbers above from does not exceed. ok is
// false if there are none above.
func (h *Histogram) quantile(part, from float64) (number float64, ok bool) {
	begin := 0.0
	if from > h.Smallest {
		begin = h.position(from)
	}
	weight := h.above(begin)
	if weight <= 1e-9*h.Total || weight <= 0 {
		return 0, false
	}
	left := part * weight
	for i := int(begin); i < len(h.Counts); i++ {
		low := max(begin, float64(i))
		here := float64(h.Counts[i]) * (float64(i+1) - low)
		if here > 0 && left <= here {
			return h.value(low + left/here*(float64(i+1)-low)), true
		}
		left -= here
	}
	return h.value(float64(len(h.Counts))), true
}

// draw returns a random number above from, with the frequencies of the histogram. ok is
// false if there are none above.
func (h *Histogram) draw(random *rand.Rand, from float64) (number float64, ok bool) {
	return h.quantile(random.Float64(), from)
}
