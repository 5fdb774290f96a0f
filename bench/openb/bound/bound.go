// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"sort"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Refusing returns an upper bound of the GPUs that can be allocated by a scheduler that
// may refuse any Pod.
func Refusing(nodes []placement.Node, pods []placement.Shape) (float64, error) {
	s := shapesOf(pods)
	p := &problem{classes: classesOf(nodes)}
	p.add(s, 0, len(pods), gpus)
	return p.solve()
}

// Accepting returns an upper bound of the GPUs that can be allocated by a scheduler that
// accepts all Pods as long as everything that has arrived fits, and may choose among the
// later ones. first is how many Pods it has to accept.
func Accepting(nodes []placement.Node, pods []placement.Shape) (allocated float64, first int, err error) {
	s := shapesOf(pods)
	classes := classesOf(nodes)
	first = sort.Search(len(pods), func(n int) bool {
		fits := false
		if err == nil {
			fits, err = fit(classes, s, n+1)
		}
		return !fits
	})
	if err != nil {
		return 0, 0, err
	}
	p := &problem{classes: classes}
	p.add(s, 0, first, func(s *placement.Shape) float64 { return gpus(s) + bonus(s) })
	p.add(s, first, len(pods), gpus)
	allocated, err = p.solve()
	for _, shape := range s.of[:first] {
		allocated -= bonus(s.list[shape])
	}
	return allocated, first, err
}

// bonus is a value that is not worth giving up for GPUs elsewhere.
func bonus(s *placement.Shape) float64 { return 10 + 2*gpus(s) }

// fit reports whether the first n Pods fit together, as far as a bound can tell.
func fit(classes []class, s *shapes, n int) (bool, error) {
	p := &problem{classes: classes}
	p.add(s, 0, n, func(s *placement.Shape) float64 { return 1 + gpus(s) })
	total := 0.0
	for i := range p.items {
		total += p.items[i].value * float64(p.items[i].count)
	}
	placed, err := p.solve()
	return placed > total*(1-tolerance), err
}
