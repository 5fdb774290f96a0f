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

// Verdict is whether and how a gang will fit.
type Verdict uint8

// The verdicts.
const (
	// FitsNow means that no Pod has to end.
	FitsNow Verdict = iota
	// FitsAfter means that it fits once some of the Pods whose end is expected have
	// ended.
	FitsAfter
	// FitsEventually means that these ends do not suffice: Pods whose end is unknown have
	// to end as well.
	FitsEventually
	// FitsOpened means that it would fit if nothing ran and closed nodes took Pods.
	FitsOpened
	// FitsNever means that it would not fit even then.
	FitsNever
)

// String describes a verdict for messages.
func (v Verdict) String() string {
	switch v {
	case FitsNow:
		return "fits now"
	case FitsAfter:
		return "fits when Pods have ended"
	case FitsEventually:
		return "will fit, but the time is unknown"
	case FitsOpened:
		return "fits when closed nodes take Pods again"
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
	// Pods are those that have to end until then, in the order of their ends. None of
	// them can be left out; there may be other such sets.
	Pods []string
	// Plan is where the gang goes then; nil if it never fits, or only after unexpected
	// ends.
	Plan *Plan
}

// WhatIf predicts when a gang fits if no new Pods arrive and Pods end as expected,
// without changing the cluster. Ends of Pods that do not run are ignored.
//
// More room never hurts, so bisection finds the earliest time. A deletion filter
// (Chinneck and Dravnieks 1991) then finds the Pods that matter: it puts Pods back, one
// at a time, if the gang still fits.
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
		return &Outlook{Verdict: c.verdictIfEmpty(g)}, nil
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
		plan, _, _ = c.Plan(g) // the gang is valid, else the first plan would have failed
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

// needed leaves out the ends that do not matter. It first tries to leave out all those on
// nodes that the plan does not use, which saves most trials.
func (c *Cluster) needed(g *Gang, ends []End) (needed []End, plan *Plan) {
	needed, plan = slices.Clone(ends), c.planWithout(g, ends)
	onNodes := slices.DeleteFunc(slices.Clone(ends), func(end End) bool { return !plan.uses(c.pods[end.Pod].Node) })
	if fewer := c.planWithout(g, onNodes); fewer != nil {
		needed, plan = onNodes, fewer
	}
	for _, end := range slices.Backward(slices.Clone(needed)) {
		fewer := slices.DeleteFunc(slices.Clone(needed), func(other End) bool { return other == end })
		if other := c.planWithout(g, fewer); other != nil {
			needed, plan = fewer, other
		}
	}
	return needed, plan
}

// uses reports whether a member is on a node.
func (p *Plan) uses(node string) bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool { return m.Node == node })
}

// verdictIfEmpty returns whether a gang fits when nothing runs, or whatever closed nodes do.
func (c *Cluster) verdictIfEmpty(g *Gang) Verdict {
	all := make([]End, 0, len(c.pods))
	for name := range c.pods {
		all = append(all, End{Pod: name})
	}
	switch {
	case c.planWithout(g, c.running(all)) != nil:
		return FitsEventually
	case fitsOpened(c, g):
		return FitsOpened
	default:
		return FitsNever
	}
}
