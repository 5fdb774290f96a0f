// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

// maxStarts is how many starts are kept, the last ones.
const maxStarts = 20_000

// starts remembers when tasks began, also of those that are gone.
type starts struct {
	list  []rows.Start
	known map[types.UID]bool
	// forgotten is the time of the last start that was given up for later ones; zero for none.
	forgotten time.Time
}

// add adds the starts that are not known yet.
func (s *starts) add(found []rows.Start) {
	if s.known == nil {
		s.known = map[types.UID]bool{}
	}
	for i := range found {
		if start := &found[i]; !s.known[start.UID] && start.At.After(s.forgotten) {
			s.known[start.UID] = true
			s.list = append(s.list, *start)
		}
	}
	surplus := len(s.list) - maxStarts
	if surplus <= 0 {
		return
	}
	slices.SortFunc(s.list, func(a, b rows.Start) int { return a.At.Compare(b.At) })
	for i := range s.list[:surplus] {
		delete(s.known, s.list[i].UID)
	}
	s.forgotten = s.list[surplus-1].At
	s.list = slices.Delete(s.list, 0, surplus)
}

// after returns the starts after a time.
func (s *starts) after(begin time.Time) []rows.Start {
	var after []rows.Start
	for i := range s.list {
		if s.list[i].At.After(begin) {
			after = append(after, s.list[i])
		}
	}
	return after
}
