// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

const (
	// futures is the number of futures that each node is tried with, futureLength the
	// number of Pods in each.
	futures      = 16
	futureLength = 40
)

// futuresOf draws sequences of requests from the mix, the same for all nodes.
func futuresOf(mix []Weighted, random *rand.Rand) [][]*placement.Request {
	total := 0.0
	for _, weighted := range mix {
		total += weighted.Weight
	}
	sequences := make([][]*placement.Request, futures)
	for i := range sequences {
		for range futureLength {
			point := random.Float64() * total
			for _, weighted := range mix {
				if point -= weighted.Weight; point < 0 {
					if weighted.Request.Percent() > 0 {
						sequences[i] = append(sequences[i], weighted.Request)
					}
					break
				}
			}
		}
	}
	return sequences
}

// earnings returns how many GPUs of a node the futures fill on average.
func earnings(s *placement.State, sequences [][]*placement.Request) float64 {
	if s.Percent() == 0 || len(sequences) == 0 {
		return 0
	}
	filled := 0
	var buffer [usualCards]int8
	for _, sequence := range sequences {
		filled += fillNode(s, append(buffer[:0], s.Free()...), sequence)
	}
	return float64(filled) / placement.Card / float64(len(sequences))
}

// usualCards is how many cards of a node are looked at without allocating memory.
const usualCards = 64

// fillNode places the requests of a sequence that fit, shares on the fullest card, and
// returns the percentage that it filled.
func fillNode(s *placement.State, free []int8, sequence []*placement.Request) int {
	cpu, memory := s.CPU(), s.Memory()
	filled, left := 0, s.Percent()
	for _, r := range sequence {
		if left == 0 {
			break
		}
		if r.CPU > cpu || r.Memory > memory || r.Percent() > left || !s.Accepts(r) || !take(free, r) {
			continue
		}
		cpu, memory = cpu-r.CPU, memory-r.Memory
		left -= r.Percent()
		filled += r.Percent()
	}
	return filled
}

// take takes the cards of a request; none if they do not suffice.
func take(free []int8, r *placement.Request) bool {
	if r.Share > 0 {
		best := -1
		for i, f := range free {
			if int(f) >= r.Share && (best < 0 || f < free[best]) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		free[best] -= int8(r.Share) //nolint:gosec // less than a card
		return true
	}
	whole := 0
	for _, f := range free {
		if f == placement.Card {
			whole++
		}
	}
	if whole < r.GPUs {
		return false
	}
	missing := r.GPUs
	for i := range free {
		if missing > 0 && free[i] == placement.Card {
			free[i] = 0
			missing--
		}
	}
	return true
}
