// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"cmp"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// popularity is the fraction of all Pods that the target workload has to cover.
const popularity = 0.95

// typical is a shape of the target workload: what FGD expects to be requested.
type typical struct {
	cpu    int64  // milli-cores
	share  int    // percent of each card, 0 without GPUs
	gpus   int    // cards
	models string // joined, as the trace has them
	part   float64
}

// accepts reports whether the shape accepts a model.
func (t *typical) accepts(model string) bool {
	return t.models == "" || slices.Contains(strings.Split(t.models, "|"), model)
}

// workload counts shapes. Memory does not distinguish them.
type workload struct {
	counts map[typical]int
	total  int
}

func newWorkload() *workload { return &workload{counts: map[typical]int{}} }

func (w *workload) add(shape *placement.Shape) {
	one := typical{cpu: shape.CPU, share: shape.Share, gpus: shape.GPUs, models: strings.Join(shape.Models, "|")}
	switch {
	case shape.GPUs > 0:
		one.share = placement.Card
	case shape.Share > 0:
		one.gpus = 1
	}
	w.counts[one]++
	w.total++
}

// target returns the most popular shapes that cover enough of the Pods, with fractions
// that sum up to 1.
func (w *workload) target() []typical {
	all := make([]typical, 0, len(w.counts))
	for one, count := range w.counts {
		one.part = float64(count)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b typical) int { return -compareTypical(&a, &b) })
	covered, length := 0.0, 0
	for length < len(all) && covered < popularity*float64(w.total) {
		covered += all[length].part
		length++
	}
	all = all[:length]
	for i := range all {
		all[i].part /= covered
	}
	return all
}

// compareTypical orders by popularity, and equally popular shapes as the
// simulator does.
func compareTypical(a, b *typical) int {
	return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.share, b.share),
		cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.models, b.models))
}
