// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import "time"

// opening is when a node has room for one more member.
type opening struct {
	at   time.Duration
	node int
}

func (o opening) before(other opening) bool {
	return o.at < other.at || o.at == other.at && o.node < other.node
}

// firstOpenings are the first of all openings that were added: a heap with the last of them at its top.
type firstOpenings struct {
	most int
	list []opening
}

// full reports whether there are enough openings before another one, and before all that follow it.
func (f *firstOpenings) full(next opening) bool {
	return len(f.list) == f.most && !next.before(f.list[0])
}

func (f *firstOpenings) add(next opening) {
	switch {
	case len(f.list) < f.most:
		f.list = append(f.list, next)
		f.rise(len(f.list) - 1)
	case next.before(f.list[0]):
		f.list[0] = next
		f.sink()
	}
}

// rise moves an opening up to where it belongs.
func (f *firstOpenings) rise(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !f.list[parent].before(f.list[at]) {
			return
		}
		f.list[parent], f.list[at] = f.list[at], f.list[parent]
		at = parent
	}
}

// sink moves the top down to where it belongs.
func (f *firstOpenings) sink() {
	for at := 0; ; {
		child := 2*at + 1
		if child >= len(f.list) {
			return
		}
		if other := child + 1; other < len(f.list) && f.list[child].before(f.list[other]) {
			child = other
		}
		if !f.list[at].before(f.list[child]) {
			return
		}
		f.list[at], f.list[child] = f.list[child], f.list[at]
		at = child
	}
}
