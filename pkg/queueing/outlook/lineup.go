// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// lineup is the jobs that wait at the moment, by their ranks: a bit for each job that ever does.
type lineup []uint64

const wordBits = 64

func newLineup(jobs int) lineup { return make(lineup, (jobs+wordBits-1)/wordBits) }

func (l lineup) add(rank int)    { l[rank/wordBits] |= 1 << (rank % wordBits) }
func (l lineup) remove(rank int) { l[rank/wordBits] &^= 1 << (rank % wordBits) }

// from returns the first rank that is not before another one; -1 if there is none.
func (l lineup) from(rank int) int {
	at := rank / wordBits
	if at >= len(l) {
		return -1
	}
	for word := l[at] &^ (1<<(rank%wordBits) - 1); ; word = l[at] {
		if word != 0 {
			return at*wordBits + bits.TrailingZeros64(word)
		}
		if at++; at == len(l) {
			return -1
		}
	}
}

// rank gives all jobs their places in the order: those that wait, which are the first of the jobs, keep their order,
// and who comes goes after all whose turn is not later.
func (p *shared) rank(waiting int) {
	turns := make([]float64, 0, len(p.jobs))
	latest := math.Inf(-1)
	for i, job := range p.jobs {
		turn := job.Turn
		if i < waiting {
			latest = max(latest, turn)
			turn = latest
		}
		turns, p.byRank = append(turns, turn), append(p.byRank, i)
	}
	slices.SortStableFunc(p.byRank, func(a, b int) int { return cmp.Compare(turns[a], turns[b]) })
	p.rankOf = make([]int, len(p.byRank))
	for rank, job := range p.byRank {
		p.rankOf[job] = rank
	}
}
