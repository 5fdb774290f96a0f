// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
)

// neverText is what an Explanation says of what fits on no nodes, even if they were empty.
const neverText = "it would not fit even if nothing else ran"

// Explanation is why a gang does not fit, and what would help.
type Explanation struct {
	// Nodes is the number of nodes that were considered.
	Nodes int
	// Refusals count the nodes by the reason why they can't take another member of the
	// role that fits worst: those that decide come first, then the most frequent. Nodes that can
	// take one, when there are too few of them, are counted under Fits.
	Refusals []Refusal
	// Never is true if not even an empty cluster would have room, and Closed if an empty one would, but only on nodes
	// that are closed.
	Never, Closed bool
	// Absent says which GPUs no node has, such as "no node has h100 (did you mean h100-80gb-hbm3?); models here:
	// h100-80gb-hbm3"; empty if there are such GPUs. It stands for the refusals, which all have that cause.
	Absent string
	// Remedies are changes each of which alone lets the gang fit, in the order of
	// the kinds. There may be none.
	Remedies []Remedy
}

// Refusal is how many nodes refuse a Pod for a reason.
type Refusal struct {
	Reason Reason
	// Resource is the one that the nodes have too little of, if it is none of those that
	// have a Reason of their own.
	Resource string
	Nodes    int
}

// String completes the sentence "the nodes …".
func (r *Refusal) String() string { return r.Reason.text(r.Nodes, r.Resource) }

// String returns one line for a user, such as "5 nodes have another GPU model, 2 have too
// few free GPUs; it would start with one more free GPU, or on h100 (1 node)".
func (e *Explanation) String() string {
	if len(e.Remedies) == 0 {
		return e.Cause()
	}
	remedies := make([]string, len(e.Remedies))
	for i := range e.Remedies {
		remedies[i] = e.Remedies[i].Text
	}
	return e.Cause() + "; " + WouldStart(remedies)
}

// Cause is String without the remedies.
func (e *Explanation) Cause() string {
	if e.Absent != "" {
		return e.Absent
	}
	if e.Never {
		return neverText + "; " + e.refusals()
	}
	return e.refusals()
}

// WouldStart returns the sentence of which remedies are the ends: "it would start with one more free GPU, or on
// h100 (1 node)".
func WouldStart(remedies []string) string { return "it would start " + strings.Join(remedies, ", or ") }

// refusals describes how many nodes refuse for which reason.
func (e *Explanation) refusals() string {
	if len(e.Refusals) == 0 {
		return "there are no nodes"
	}
	parts := make([]string, 0, len(e.Refusals))
	for i := range e.Refusals {
		refusal := &e.Refusals[i]
		count := strconv.Itoa(refusal.Nodes)
		if i == 0 {
			count = plural.Count(refusal.Nodes, "node")
		}
		parts = append(parts, count+" "+refusal.String())
	}
	return strings.Join(parts, ", ")
}

// Explain returns why Plan finds no places for a gang, and nil for a gang that fits.
func (c *Cluster) Explain(g *Gang) (*Explanation, error) {
	if _, fits, err := c.Plan(g); err != nil || fits {
		return nil, err
	}
	within := c.domain(g.Within)
	excepted := c.nodesIn(within, g.Except)
	e := &Explanation{Nodes: within.nodes}
	defer c.except(g.Except)()
	worst := c.worst(within, g)
	e.Refusals = c.refusals(within, worst, excepted)
	anywhere := *g
	anywhere.Except = nil // nodes may be excepted only temporarily
	_, fits, err := c.emptied().Plan(&anywhere)
	if err != nil {
		return nil, err
	}
	e.Closed = !fits && fitsOpened(c, &anywhere)
	e.Never, e.Absent = !fits && !e.Closed, absent(c, g)
	e.sort()
	e.Remedies = c.remedies(g, !fits)
	if e.Closed {
		e.Remedies = slices.Concat(opening(within, worst), e.Remedies)
	}
	return e, nil
}

// worst returns the request of the role of which the smallest fraction fits.
func (c *Cluster) worst(within *Domain, g *Gang) *Request {
	demands := c.demands(g)
	return slices.MinFunc(demands, func(a, b demand) int {
		return cmp.Compare(float64(within.Room(a.request))/float64(a.count), float64(within.Room(b.request))/float64(b.count))
	}).request
}

// nodesIn returns those of a list of nodes that are in a domain and not hidden, each once.
func (c *Cluster) nodesIn(d *Domain, names []string) map[*node]bool {
	found := map[*node]bool{}
	for _, name := range names {
		if n := c.nodes[name]; n != nil && n.hiddenIn == nil && n.domain.isIn(d) {
			found[n] = true
		}
	}
	return found
}

// isIn reports whether the domain is another one or within it.
func (d *Domain) isIn(other *Domain) bool {
	for ; d != nil; d = d.parent {
		if d == other {
			return true
		}
	}
	return false
}

// refusals counts why nodes can't take one more Pod of a request. excepted are the nodes
// of the domain that are hidden: what holds on them even if they were not comes first.
func (c *Cluster) refusals(within *Domain, r *Request, excepted map[*node]bool) []Refusal {
	counts := map[Refusal]int{}
	for n := range excepted {
		reason := n.fitEmpty(r)
		if reason == Fits {
			reason = Excluded
		}
		counts[Refusal{Reason: reason, Resource: n.shortOf(r, reason)}]++
	}
	for _, members := range within.classes {
		alike := members.nodes
		if !members.state.kind.unequal && len(r.Nodes) == 0 {
			alike = alike[:1]
		}
		for _, n := range alike {
			reason := n.fit(r)
			counts[Refusal{Reason: reason, Resource: n.shortOf(r, reason)}] += len(members.nodes) / len(alike)
		}
	}
	list := make([]Refusal, 0, len(counts))
	for refusal, nodes := range counts {
		refusal.Nodes = nodes
		list = append(list, refusal)
	}
	return list
}

// sort sorts the reasons that decide first: those that may end, or, of what never fits, those that hold on empty nodes
// as well.
func (e *Explanation) sort() {
	decides := func(r Reason) bool { return !r.Lasting() }
	switch {
	case e.Closed:
		decides = Reason.Closed
	case e.Never: // nodes of the right kind say more than others
		decides = func(r Reason) bool { return !r.Lasting() || r > OtherModel }
	}
	rank := func(r *Refusal) int {
		if decides(r.Reason) {
			return 0
		}
		return 1
	}
	slices.SortFunc(e.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), -cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Resource, b.Resource))
	})
}
