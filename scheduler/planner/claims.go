// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// claims keep nodes for gangs that Pods were preempted for, and that will fit there once these have left.
// Meanwhile, only Pods that come before the gang in the queue may go there, and Pods without GPUs that leave
// it enough of everything.
type claims struct {
	mu   sync.Mutex
	list map[string]*claim
	// cooldownUntil is when gangs whose claim has expired may claim again without stopping others.
	cooldownUntil map[string]time.Time
}

type claim struct {
	rank gangs.Rank
	// nodes are the nodes that are kept, each with what the gang's Pods will hold there.
	nodes map[string]mirror.Withheld
	// leaving are the Pods that hold a part of it now.
	leaving map[types.UID]bool
	until   time.Time
	// evicts is true if Pods are stopped for the gang now, and graceUntil is until when at least it is
	// claimed because those that leave are still within their grace periods.
	evicts     bool
	graceUntil time.Time
	// queue is the gang's queue, and demand what it is going to hold there.
	queue  string
	demand queueing.Amounts
}

func newClaims() *claims {
	return &claims{list: map[string]*claim{}, cooldownUntil: map[string]time.Time{}}
}

// demands returns what gangs that claim nodes are going to hold in their queues, except for one gang.
func (c *claims) demands(except string) (list []queues.Demand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for group, one := range c.list {
		if group != except && len(one.demand) > 0 {
			list = append(list, queues.Demand{Queue: one.queue, Amounts: one.demand})
		}
	}
	return list
}

func rankOf(attempt *gangs.Attempt) gangs.Rank {
	return gangs.Rank{Priority: attempt.Priority, Since: attempt.Group.Since, Group: attempt.Group.Key}
}

// blockedNodes returns the nodes that are kept from a gang, in order: those of gangs that it does not come before.
func (c *claims) blockedNodes(attempt *gangs.Attempt, comesBefore func(*claim) bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[string]bool{}
	for group, one := range c.list {
		if group != attempt.Group.Key && !comesBefore(one) {
			for node := range one.nodes {
				nodes[node] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// groups returns the gangs that nodes are kept for.
func (c *claims) groups() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	groups := make(map[string]bool, len(c.list))
	for group := range c.list {
		groups[group] = true
	}
	return groups
}

// pauses reports whether a gang may not claim nodes now without stopping others, as its last claim has
// just expired: somebody else has a chance to.
func (c *claims) pauses(group string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.cooldownUntil[group])
}

// claim keeps nodes for a gang, and has those tried again that others were kept from before.
func (p *Planner) claim(attempt *gangs.Attempt, one *claim) {
	if p.claims.set(attempt, one) {
		p.wake()
	}
}

// set keeps nodes for a gang, in place of those that it has claimed so far. It reports whether any node may
// not be kept any more that was.
func (c *claims) set(attempt *gangs.Attempt, one *claim) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := attempt.Group.Key
	one.rank = rankOf(attempt)
	if old := c.list[group]; old != nil {
		if !one.evicts {
			one.until = old.until // a victim that never terminates must not keep nodes claimed forever
		}
		ended = !one.covers(old)
	}
	if one.until.Before(one.graceUntil) {
		one.until = one.graceUntil
	}
	c.list[group] = one
	return ended
}

// covers reports whether a claim keeps all nodes of another one.
func (one *claim) covers(other *claim) bool {
	for node := range other.nodes {
		if _, kept := one.nodes[node]; !kept {
			return false
		}
	}
	return true
}

// drop ends a group's claim. It reports whether there was one.
func (c *claims) drop(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, had := c.list[group]
	delete(c.list, group)
	return had
}

// abandon ends a group's claim if nobody leaves for it but Pods that stay now. It reports whether there was such a claim.
func (c *claims) abandon(group string, staying []types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.list[group]
	if one == nil {
		return false
	}
	for uid := range one.leaving {
		if !slices.Contains(staying, uid) {
			return false
		}
	}
	delete(c.list, group)
	return true
}

// sweep ends claims that have expired, or whose gang is gone. A gang whose claim has
// expired gives others a chance to claim. It reports whether any claim ended.
func (c *claims) sweep(now time.Time, rest time.Duration, exists func(group string) bool) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.list)
	for group, one := range c.list {
		switch {
		case !exists(group):
			delete(c.list, group)
		case now.After(one.until):
			delete(c.list, group)
			c.cooldownUntil[group] = now.Add(rest)
		}
	}
	maps.DeleteFunc(c.cooldownUntil, func(_ string, until time.Time) bool { return now.After(until) })
	return len(c.list) < before
}

// count returns how many nodes are kept.
func (c *claims) count() (nodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		nodes += len(one.nodes)
	}
	return nodes
}

// clearing reports whether a gang claims nodes that Pods leave for it.
func (c *claims) clearing(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list[group] != nil
}

// claimedByOthers returns the nodes that are kept from a gang, except those on which
// places are reserved for it.
func (p *Planner) claimedByOthers(attempt *gangs.Attempt) []string {
	if !p.claims.any() {
		return nil
	}
	nodes := p.claims.blockedNodes(attempt, p.precedenceOf(attempt))
	if len(nodes) == 0 {
		return nil
	}
	requester := p.finder.requesterOf(attempt)
	if requester.Pods == nil {
		return nodes
	}
	reserved := p.mirror.NodesFor(requester.Pods)
	return slices.DeleteFunc(nodes, func(node string) bool { return reserved[node] })
}

// precedenceOf returns whether a gang comes before one that claims nodes. Priorities decide in a queue only:
// otherwise the Pods of a higher priority that had to give back GPUs would take them again at once. Of another queue, a gang comes
// before it if it gets what its queue is guaranteed and the other one does not, or if it has the priority of critical system Pods.
func (p *Planner) precedenceOf(attempt *gangs.Attempt) func(*claim) bool {
	rank, queue := rankOf(attempt), p.line.State().QueueOf(attempt.Waiting[0].Pod()).Queue
	critical, guaranteed := attempt.Priority >= preemption.SystemCritical, p.line.IsGuaranteed(attempt.Group.Key)
	return func(one *claim) bool {
		if one.queue == queue || critical {
			return rank.Compare(one.rank) <= 0
		}
		return guaranteed && !p.line.IsGuaranteed(one.rank.Group)
	}
}

// endPlaces ends what is kept for a gang that has got its place, or no longer waits.
func (p *Planner) endPlaces(group string) {
	claimed, reserved := p.claims.drop(group), p.line.Drop(group)
	if claimed || reserved {
		p.wake()
		p.admitTurnedAway()
	}
}
