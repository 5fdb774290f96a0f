// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Checker judges what the engine does not model: whether a member of a gang may go to a
// node, given where the members before it went. The scheduler's Checker asks
// kube-scheduler's filters.
type Checker interface {
	// Place places a member of a role on a node, unless it returns something other than
	// Accepted.
	Place(role int, node string) Judgement
	// Undo takes back the latest Place that was accepted and not taken back yet.
	Undo()
}

// Judgement is a Checker's answer.
type Judgement uint8

// The judgements.
const (
	Accepted Judgement = iota
	// Refused lasts as long as the members that are placed stay: more of them don't help.
	Refused
	// RefusedForNow may end when further members have been placed.
	RefusedForNow
	// NeverAccepted has nothing to do with the members of the gang: the node refuses a
	// member of the role however the others are placed.
	NeverAccepted
	// Exhausted means that the Checker has no time left: the search ends without a plan.
	Exhausted
)

// hidden is a node that is out of all domains because it refuses members of a role.
type hidden struct {
	node      *node
	judgement Judgement
}

// checks is the state of a planner that asks a Checker.
type checks struct {
	Checker
	// role is the one whose members are being placed; hidden are the nodes that refuse
	// them, and never those that do so in any case, by role.
	role   int
	hidden []hidden
	never  map[int][]*node
	// conditional is true once a refusal depended on the members that were placed: other
	// places for these may lead to a plan.
	conditional bool
	exhausted   bool
}

// turnTo prepares for placing members of a role: other nodes may refuse them than those
// that refused the members of another role.
func (p *planner) turnTo(role int) {
	if p.checks == nil || p.checks.role == role {
		return
	}
	p.showAll()
	p.checks.role = role
	for _, n := range p.checks.never[role] {
		p.hide(n, NeverAccepted)
	}
}

// accepts asks the Checker whether a member may go to a node, and hides the node if not.
func (p *planner) accepts(role int, n *node) bool {
	if p.checks == nil {
		return true
	}
	judgement := p.checks.Place(role, n.Name)
	switch judgement {
	case Accepted:
		p.show(func(h hidden) bool { return h.judgement == RefusedForNow })
		return true
	case Exhausted:
		p.checks.exhausted = true
		return false
	case NeverAccepted:
		p.checks.never[role] = append(p.checks.never[role], n)
	default:
		p.checks.conditional = true
	}
	p.hide(n, judgement)
	return false
}

func (p *planner) hide(n *node, judgement Judgement) {
	if p.cluster.hide(n) {
		p.checks.hidden = append(p.checks.hidden, hidden{n, judgement})
	}
}

// show puts hidden nodes back into their domains.
func (p *planner) show(which func(hidden) bool) {
	list := p.checks.hidden
	first := len(list) // of those that stay hidden
	for _, h := range slices.Backward(list) {
		if which(h) {
			p.cluster.show(h.node)
			continue
		}
		first--
		list[first] = h
	}
	p.checks.hidden = slices.Delete(list, 0, first)
}

// undone is called when members have been taken back: what nodes refused because of them
// they may accept now.
func (p *planner) undone(members int) {
	if p.checks == nil {
		return
	}
	for range members {
		p.checks.Undo()
	}
	if len(p.gang.Roles) == 1 {
		p.show(func(h hidden) bool { return h.judgement != NeverAccepted })
		return
	}
	p.showAll() // members of any role may come next
}

// exhausted reports whether the search has to end.
func (p *planner) exhausted() bool { return p.checks != nil && p.checks.exhausted }

// showAll puts all hidden nodes back.
func (p *planner) showAll() {
	if p.checks != nil {
		p.show(func(hidden) bool { return true })
		p.checks.role = noRole
	}
}

// noRole is the role for which no node is hidden.
const noRole = -1
