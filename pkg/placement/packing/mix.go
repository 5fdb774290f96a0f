// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"math"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Mix is the observed demand: how often each request was seen, with recent ones counting
// more.
type Mix struct {
	entries map[*placement.Request]*Weighted
	order   []*Weighted // as first seen
	// unit is the weight of the next request; it grows instead of all others decaying.
	unit   float64
	growth float64
	seen   int
	// size is the sum of the requests' sizes.
	size int
}

// Weighted is a request and how often it was seen.
type Weighted struct {
	Request *placement.Request
	Weight  float64
	// Ending is the part of the weight of Pods that were expected to end.
	Ending float64
}

// NewMix returns an empty Mix in which the weight of a request halves after halfLife
// further ones; 0 is never.
func NewMix(halfLife float64) *Mix {
	growth := 1.0
	if halfLife > 0 {
		growth = math.Exp2(1 / halfLife)
	}
	return &Mix{entries: map[*placement.Request]*Weighted{}, unit: 1, growth: growth}
}

// Add counts a request of a Pod of which nobody knows when it ends.
func (m *Mix) Add(r *placement.Request) { m.count(r, 0) }

// AddEnding counts a request of a Pod that is expected to end.
func (m *Mix) AddEnding(r *placement.Request) { m.count(r, 1) }

func (m *Mix) count(r *placement.Request, ending float64) {
	m.AddWeight(r, 1)
	m.entries[r].Ending += ending * m.unit
	m.seen++
	if len(m.order) > mostRequests || m.size > mostSize {
		m.trim(r)
	}
	m.unit *= m.growth
	if m.unit > 1e9 {
		m.rescale()
	}
}

// AddWeight counts a request with a weight, as a prior.
func (m *Mix) AddWeight(r *placement.Request, weight float64) {
	entry := m.entries[r]
	if entry == nil {
		entry = &Weighted{Request: r}
		m.entries[r] = entry
		m.order = append(m.order, entry)
		m.size += r.Size()
	}
	entry.Weight += weight * m.unit
}

func (m *Mix) rescale() {
	for _, entry := range m.order {
		entry.Weight /= m.unit
		entry.Ending /= m.unit
	}
	m.unit = 1
}

// forgotten is the weight below which a request is as good as never seen.
const forgotten = 0.01

// forget drops requests that were not seen for long, which bounds memory however many
// different ones arrive.
func (m *Mix) forget() {
	m.drop(func(entry *Weighted) bool { return entry.Weight < forgotten*m.unit })
}

func (m *Mix) drop(drops func(*Weighted) bool) {
	m.order = slices.DeleteFunc(m.order, func(entry *Weighted) bool {
		if !drops(entry) {
			return false
		}
		m.size -= entry.Request.Size()
		delete(m.entries, entry.Request)
		return true
	})
}

// mostRequests is how many requests are remembered, and mostSize their size in bytes: anybody may ask for something
// else with each Pod, and name hundreds of labels in it.
const (
	mostRequests = 4096
	mostSize     = 1 << 20
)

// trim drops the rarest requests, but not the last one, until three quarters of what may be remembered are left.
func (m *Mix) trim(last *placement.Request) {
	rarest := slices.Clone(m.order)
	slices.SortStableFunc(rarest, func(a, b *Weighted) int { return cmp.Compare(a.Weight, b.Weight) })
	drops := map[*Weighted]bool{}
	count, size := len(m.order), m.size
	for _, entry := range rarest {
		if count <= mostRequests/4*3 && size <= mostSize/4*3 {
			break
		}
		if entry.Request != last {
			drops[entry] = true
			count, size = count-1, size-entry.Request.Size()
		}
	}
	m.drop(func(entry *Weighted) bool { return drops[entry] })
}

// has reports whether a request is remembered.
func (m *Mix) has(r *placement.Request) bool { return m.entries[r] != nil }

// Seen returns how many requests were added.
func (m *Mix) Seen() int { return m.seen }

// Popular returns the requests, the most frequent first.
func (m *Mix) Popular() []Weighted {
	list := make([]Weighted, 0, len(m.order))
	for _, entry := range m.order {
		list = append(list, Weighted{Request: entry.Request, Weight: entry.Weight / m.unit, Ending: entry.Ending / m.unit})
	}
	slices.SortStableFunc(list, func(a, b Weighted) int { return -cmp.Compare(a.Weight, b.Weight) })
	return list
}
