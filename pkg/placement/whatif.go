// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"time"
)

// End is when a running Pod is expected to end.
type End struct {
	Pod   string
	After time.Duration
}

// Verdict is when a gang fits.
type Verdict uint8

// The verdicts.
const (
	// FitsNow means that nothing needs to end.
	FitsNow Verdict = iota
	// FitsAfter means that it does when some of the Pods have ended whose end is
	// expected.
	FitsAfter
	// FitsSometime means that their ends do not suffice: others have to end, and
	// nobody knows when.
	FitsSometime
	// FitsNever means that it would not even fit if nothing ran.
	FitsNever
)

// String is for messages.
func (v Verdict) String() string {
	switch v {
	case FitsNow:
		return "fits now"
	case FitsAfter:
		return "fits when Pods have ended"
	case FitsSometime:
		return "fits, but it is not known when"
	case FitsNever:
		return "never fits"
	}
	return "unknown verdict"
}

// Outlook is when a gang fits, and where.
type Outlook struct {
	Verdict Verdict
	// After is the earliest time at which it fits.
	After time.Duration
	// Pods are those that it waits for until then, in the order of their ends.
	// With one of them less it would not fit; of several such sets this is one.
	Pods []string
	// Plan is where the gang goes then; nil if it never fits, or only when others
	// end.
	Plan *Plan
}

// WhatIf tells when a gang fits if nothing new comes and Pods end as expected,
// and changes nothing. Pods that do not run are ignored.
//
// More room never hurts, so the earliest time is found by bisection, and the Pods
// that matter by putting back, one at a time, those without which it fits as well
// (a deletion filter, Chinneck and Dravnieks 1991).
func (c *Cluster) WhatIf(g *Gang, ends []End) (outlook *Outlook, err error) {
	plan, fits, err := c.Plan(g)
	if err != nil {
		return nil, err
	}
	if fits {
		return &Outlook{Verdict: FitsNow, Plan: plan}, nil
	}
	ends = c.running(ends)
	first, fits := c.firstThatFits(g, ends)
	if !fits {
		return &Outlook{Verdict: c.ever(g)}, nil
	}
	needed, plan := c.needed(g, ends[:first])
	outlook = &Outlook{Verdict: FitsAfter, After: needed[len(needed)-1].After, Plan: plan}
	for _, end := range needed {
		outlook.Pods = append(outlook.Pods, end.Pod)
	}
	return outlook, nil
}

// running returns the ends of Pods that run, the earliest first, each Pod once.
func (c *Cluster) running(ends []End) []End {
	list := make([]End, 0, len(ends))
	for _, end := range ends {
		if c.pods[end.Pod] != nil {
			list = append(list, end)
		}
	}
	slices.SortFunc(list, func(a, b End) int { return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Pod, b.Pod)) })
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(end End) bool {
		known := seen[end.Pod]
		seen[end.Pod] = true
		return known
	})
}

// planWithout plans as if some Pods had ended.
func (c *Cluster) planWithout(g *Gang, ends []End) (plan *Plan) {
	c.Try(func() bool {
		for _, end := range ends {
			c.Remove(end.Pod)
		}
		plan, _, _ = c.Plan(g) // the gang is valid, else the first plan had failed
		return false
	})
	return plan
}

// firstThatFits returns how many ends it takes until a gang fits.
func (c *Cluster) firstThatFits(g *Gang, ends []End) (first int, fits bool) {
	if c.planWithout(g, ends) == nil {
		return 0, false
	}
	low, high := 0, len(ends) // it fits after high, not after low
	for high-low > 1 {
		middle := (low + high) / 2
		if c.planWithout(g, ends[:middle]) != nil {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

// needed leaves out the ends that do not matter. Without those elsewhere than on
// the nodes of the plan it is still valid, which saves most trials.
func (c *Cluster) needed(g *Gang, ends []End) (needed []End, plan *Plan) {
	needed, plan = slices.Clone(ends), c.planWithout(g, ends)
	onNodes := slices.DeleteFunc(slices.Clone(ends), func(end End) bool { return !plan.uses(c.pods[end.Pod].Node) })
	if fewer := c.planWithout(g, onNodes); fewer != nil {
		needed, plan = onNodes, fewer
	}
	for _, end := range slices.Backward(slices.Clone(needed)) {
		fewer := slices.DeleteFunc(slices.Clone(needed), func(other End) bool { return other == end })
		if its := c.planWithout(g, fewer); its != nil {
			needed, plan = fewer, its
		}
	}
	return needed, plan
}

// uses reports whether a member is on a node.
func (p *Plan) uses(node string) bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool { return m.Node == node })
}

// ever is whether a gang fits when nothing runs.
func (c *Cluster) ever(g *Gang) Verdict {
	all := make([]End, 0, len(c.pods))
	for name := range c.pods {
		all = append(all, End{Pod: name})
	}
	if c.planWithout(g, c.running(all)) != nil {
		return FitsSometime
	}
	return FitsNever
}
