// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"maps"
	"slices"
)

// maxSearches is for how many tasks one call searches for moves: each search takes
// milliseconds to a second.
const maxSearches = 4

// Searches remembers, from one call to the next, for whom moves were searched for, so that those for whom there are
// none don't keep others from being searched for: each namespace goes round its tasks, and the namespaces take turns.
// It is not safe for concurrent use.
type Searches struct {
	call       int
	namespaces map[string]*searched
}

// searched is the searches for tasks of a namespace.
type searched struct {
	// demands are those of this round for which no moves were found. The round ends with the call in which none is
	// left.
	demands map[string]bool
	// last is the call in which the last search was, and wanted the last one in which there was a task to search for.
	last, wanted int
	// left is true if there was no time for some task in this call.
	left bool
}

// NewSearches returns Searches that remember nothing.
func NewSearches() *Searches { return &Searches{namespaces: map[string]*searched{}} }

// search is the searches of one call.
type search struct {
	*Searches
	count int
	// turns are the namespaces of the last call whose turn it is.
	turns map[string]bool
	// hopeless are the demands for which no moves were found in this call. Places that other tasks get
	// in the meantime don't make it easier.
	hopeless map[string]bool
}

// begin begins a call. Nil remembers nothing.
func (s *Searches) begin() *search {
	if s == nil {
		s = NewSearches()
	}
	s.call++
	names := slices.SortedFunc(maps.Keys(s.namespaces), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.namespaces[a].last, s.namespaces[b].last), cmp.Compare(a, b))
	})
	turns := map[string]bool{}
	for _, name := range names[:min(len(names), maxSearches)] {
		turns[name] = true
	}
	return &search{Searches: s, turns: turns, hopeless: map[string]bool{}}
}

// denied returns why no moves are searched for now for a task; empty if they are.
func (s *search) denied(namespace, demand string) string {
	known := s.namespaces[namespace]
	if known == nil {
		known = &searched{demands: map[string]bool{}}
		s.namespaces[namespace] = known
	}
	known.wanted = s.call
	switch {
	case known.demands[demand]:
		return "no moves were found for it recently, and other tasks are tried first"
	case s.count+s.kept(namespace) >= maxSearches:
		known.left = true
		return "other tasks are tried first"
	}
	s.count++
	known.demands[demand], known.last = true, s.call
	return ""
}

// found records that moves were found for a task.
func (s *search) found(namespace, demand string) { delete(s.namespaces[namespace].demands, demand) }

// kept returns how many of the searches of this call are kept for other namespaces: one for each whose turn it is,
// unless it is the namespace's own.
func (s *search) kept(namespace string) (count int) {
	if s.turns[namespace] && s.namespaces[namespace].last < s.call {
		return 0
	}
	for other := range s.turns {
		if other != namespace && s.namespaces[other].last < s.call {
			count++
		}
	}
	return count
}

// end ends a call. If a plan was found, the tasks after it were not looked at.
func (s *search) end(found bool) {
	for name, known := range s.namespaces {
		switch {
		case found:
		case known.wanted < s.call:
			delete(s.namespaces, name)
		case !known.left:
			clear(known.demands)
		}
		known.left = false
	}
}
