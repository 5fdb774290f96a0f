// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "math/bits"

// Machines of one make differ by some MiB of memory, and by some of their storage. If each
// amount had a State of its own, nodes would hardly share any. Therefore amounts are
// rounded down to the least that a kind of nodes has, by less than 1/256, and a State
// counts from there. What a node has beyond that is its slack. Only where it matters
// whether a node has more than the least is each node of a State looked at.

// slack is what a node has beyond the least of its kind.
type slack struct {
	memory int64
	// others are in the order of the kind; nil if all are 0.
	others []int64
}

// of returns the slack of one of the other resources.
func (s *slack) of(index int) int64 {
	if s.others == nil {
		return 0
	}
	return s.others[index]
}

// leastOf rounds the amount that a node has down. spread is how much more other nodes with
// the same result may have: 0 if the amount is its own result, as of small numbers of
// devices and of round amounts of memory, because those are amounts that nodes share.
func leastOf(amount int64) (least, spread int64) {
	const digits = 9                                              // that count, binary
	step := int64(1) << max(0, bits.Len64(uint64(amount))-digits) //nolint:gosec // not negative
	least = amount &^ (step - 1)
	if least == amount {
		return least, 0
	}
	return least, step - 1
}

// setLeast sets what each node of the kind has at least, and the most slack.
func (k *kind) setLeast(memory int64, others Amounts) {
	k.memory, k.most.memory = leastOf(memory)
	k.unequal = k.most.memory > 0
	for i := range others {
		least, spread := leastOf(others[i].Value)
		k.others = append(k.others, Amount{others[i].Resource, least})
		if spread == 0 {
			continue
		}
		if k.most.others == nil {
			k.most.others = make([]int64, len(others))
		}
		k.most.others[i], k.unequal = spread, true
	}
}

// setSlack computes what the node has beyond the least of its kind.
func (n *node) setSlack() {
	k := n.layout.kind
	n.slack = slack{memory: n.Memory - k.memory}
	if k.most.others == nil {
		return
	}
	n.slack.others = make([]int64, len(k.others))
	for i := range k.others {
		n.slack.others[i] = n.Others[i].Value - k.others[i].Value
	}
}

// rest returns what is free without the slack, in the State of the node; the amounts are
// in a buffer.
func (c *Cluster) rest(n *node) rest {
	c.amounts = append(c.amounts[:0], n.others...)
	for i := range n.slack.others {
		c.amounts[i] -= n.slack.others[i]
	}
	return rest{cpu: n.cpu, memory: n.memory - n.slack.memory, slots: n.slots, others: c.amounts}
}

// fit returns the first reason why the node can't take a request, or Fits.
func (n *node) fit(r *Request) Reason { return n.unlessNamed(r, n.state.fit(r, &n.slack)) }

// fitEmpty returns why the node couldn't take a request even if it were empty, or Fits.
func (n *node) fitEmpty(r *Request) Reason {
	return n.unlessNamed(r, n.layout.kind.fit(r, &n.slack))
}

// unlessNamed returns a reason, or OtherLabels if that comes before it and the request's
// rules do not admit the node.
func (n *node) unlessNamed(r *Request, reason Reason) Reason {
	if len(r.Nodes) > 0 && (reason == Fits || reason > OtherLabels) && !r.suits(n) {
		return OtherLabels
	}
	return reason
}

// capacity returns how many Pods of a request the node could take.
func (n *node) capacity(r *Request) int {
	if !r.suits(n) {
		return 0
	}
	return n.state.capacity(r, &n.slack)
}

// mayFit returns why none of the nodes in a State can take a request, or Fits. each is
// true if only some of them can, so that each has to be asked.
func (s *State) mayFit(r *Request) (reason Reason, each bool) {
	reason = s.fit(r, &s.kind.most)
	return reason, reason == Fits && (len(r.Nodes) > 0 || (s.kind.unequal && s.fit(r, &slack{}) != Fits))
}

// first returns the first node of a class that can take a request, by name; nil if none
// can.
func (c *class) first(r *Request, each bool) *node {
	if !each {
		return c.nodes[0]
	}
	for _, n := range c.nodes {
		if n.fit(r) == Fits {
			return n
		}
	}
	return nil
}

// room returns how many Pods of a request the nodes of a class can take.
func (c *class) room(r *Request) int {
	least := c.state.capacity(r, &slack{})
	if len(r.Nodes) == 0 && (!c.state.kind.unequal || c.state.capacity(r, &c.state.kind.most) == least) {
		return len(c.nodes) * least
	}
	pods := 0
	for _, n := range c.nodes {
		pods += n.capacity(r)
	}
	return pods
}
