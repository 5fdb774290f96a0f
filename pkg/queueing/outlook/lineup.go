// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
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

// rank gives all jobs their places in the order: who waits keeps the order of the input, and who comes goes after all
// whose turn is not later.
func (p *shared) rank(in *Input) {
	p.coming = make([]int, len(in.Coming))
	for i := range p.coming {
		p.coming[i] = i
	}
	slices.SortStableFunc(p.coming, func(a, b int) int {
		return cmp.Compare(in.Coming[a].After/time.Second, in.Coming[b].After/time.Second)
	})
	turns := make([]float64, 0, len(in.Waiting)+len(in.Coming))
	latest := math.Inf(-1)
	for i := range in.Waiting {
		latest = max(latest, in.Waiting[i].Turn)
		turns, p.byRank = append(turns, latest), append(p.byRank, i)
	}
	for i := range in.Coming {
		turns = append(turns, in.Coming[i].Turn)
	}
	for _, i := range p.coming {
		p.byRank = append(p.byRank, len(in.Waiting)+i)
	}
	slices.SortStableFunc(p.byRank, func(a, b int) int { return cmp.Compare(turns[a], turns[b]) })
	p.rankOf = make([]int, len(p.byRank))
	for rank, job := range p.byRank {
		p.rankOf[job] = rank
	}
}
