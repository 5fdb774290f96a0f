// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// claims keep nodes for gangs that will fit there once others have left: those that have
// waited for too long, and those that Pods were preempted for. Meanwhile, only Pods that
// come before the gang in the queue may go there, and Pods without GPUs that leave it enough
// of everything.
type claims struct {
	mu   sync.Mutex
	list map[string]*claim
	// cooldownUntil is when gangs whose claim has expired may claim again without stopping others.
	cooldownUntil map[string]time.Time
	// noNodesUntil is until when no nodes are looked for, by what is asked for: there were none.
	noNodesUntil map[string]time.Time
}

// maxStarving is how many gangs of one namespace may keep nodes at a time because they have
// waited for too long: a namespace with many waiting gangs must not drain the cluster.
const maxStarving = 4

type claim struct {
	rank      gangs.Rank
	namespace string
	// nodes are the nodes that are kept, each with what the gang's Pods will hold there.
	nodes map[string]mirror.Withheld
	// leaving are the Pods that hold a part of it now.
	leaving  map[types.UID]bool
	until    time.Time
	starving bool
	// evicts is true if Pods are stopped for the gang now, and graceUntil is until when at least it is
	// claimed because those that leave are still within their grace periods.
	evicts     bool
	graceUntil time.Time
	// queue is the gang's queue, and demand what it is going to hold there. They are empty without GPUQueues, and
	// for starving gangs.
	queue  string
	demand queueing.Amounts

	// awaited are the GPUs that have to become free for a starving gang, by node; leastInUse
	// is how much of them was in use, in percent of a GPU, when it was the least so far; it is
	// the measure of progress.
	awaited    map[string][]int
	leastInUse int
	// reviseAt is when other nodes may be looked for.
	reviseAt time.Time
}

func newClaims() *claims {
	return &claims{list: map[string]*claim{}, cooldownUntil: map[string]time.Time{}, noNodesUntil: map[string]time.Time{}}
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

// set keeps nodes for a gang, in place of those that it has claimed so far. Starving gangs behind it
// that claim any of these nodes lose their claims. It reports whether any node may not be kept any more that was.
func (c *claims) set(attempt *gangs.Attempt, one *claim, now time.Time) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := attempt.Group.Key
	one.rank, one.namespace, one.reviseAt = rankOf(attempt), namespaceOf(attempt), now.Add(revisePeriod)
	if old := c.list[group]; old != nil {
		one.succeed(old)
		ended = !one.covers(old)
	}
	if one.until.Before(one.graceUntil) {
		one.until = one.graceUntil
	}
	c.list[group] = one
	before := len(c.list)
	maps.DeleteFunc(c.list, func(_ string, other *claim) bool {
		return one.starving && other.starving && other.rank.Compare(one.rank) > 0 && other.overlaps(one)
	})
	return ended || len(c.list) < before
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

// succeed makes a claim the successor of an earlier one of the same gang. It lasts longer
// only if others are stopped for it, or if the gang is nearer to its start than it has ever
// been: a victim that never terminates must not keep nodes claimed forever.
func (one *claim) succeed(old *claim) {
	if progress := one.starving && old.starving && one.leastInUse < old.leastInUse; !progress && !one.evicts {
		one.until = old.until
	}
	if one.starving && old.starving {
		one.leastInUse = min(one.leastInUse, old.leastInUse)
	}
}

func (one *claim) overlaps(other *claim) bool {
	for node := range one.nodes {
		if _, both := other.nodes[node]; both {
			return true
		}
	}
	return false
}

func namespaceOf(attempt *gangs.Attempt) string { return attempt.Waiting[0].Pod().Namespace }

// mayClaim reports whether nodes may be looked for that a starving gang claims: its last
// claim has not just expired, and not too many gangs of its namespace have one. A gang that
// has a claim may look for better nodes from time to time.
func (c *claims) mayClaim(attempt *gangs.Attempt, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.cooldownUntil[attempt.Group.Key]) {
		return false
	}
	if old := c.list[attempt.Group.Key]; old != nil {
		return old.starving && !now.Before(old.reviseAt)
	}
	count := 0
	for _, one := range c.list {
		if one.starving && one.namespace == namespaceOf(attempt) {
			count++
		}
	}
	return count < maxStarving
}

// foundNone records that there are no nodes to claim for a request; equal ones need not look for
// a while.
func (c *claims) foundNone(key string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noNodesUntil[key] = now.Add(revisePeriod)
}

// hasNone reports whether there were no nodes to claim for a request, a short time ago.
func (c *claims) hasNone(wanted filters.Keys, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.noNodesUntil[wanted.Request]) || now.Before(c.noNodesUntil[wanted.Filtered])
}

// awaitedBy returns the GPUs that have to become free for a starving gang; nil if it claims
// nothing. It won't be asked to revise its claim for a while.
func (c *claims) awaitedBy(group string, now time.Time) map[string][]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.list[group]
	if one == nil {
		return nil
	}
	one.reviseAt = now.Add(revisePeriod)
	return one.awaited
}

// prolong prolongs the claims of starving gangs for which more has become free than ever
// before. inUse returns how much of some GPUs is in use.
func (c *claims) prolong(until time.Time, inUse func(gpus map[string][]int) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		if !one.starving {
			continue
		}
		if now := inUse(one.awaited); now < one.leastInUse {
			one.leastInUse, one.until = now, until
		}
	}
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
	if one == nil || one.starving {
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
	for _, list := range []map[string]time.Time{c.cooldownUntil, c.noNodesUntil} {
		maps.DeleteFunc(list, func(_ string, until time.Time) bool { return now.After(until) })
	}
	return len(c.list) < before
}

// count returns how many nodes are kept for starving gangs, and for gangs that preempted
// others.
func (c *claims) count() (starving, preempting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		if one.starving {
			starving += len(one.nodes)
		} else {
			preempting += len(one.nodes)
		}
	}
	return starving, preempting
}

// clearing reports whether a gang claims nodes that Pods leave for it.
func (c *claims) clearing(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.list[group]
	return one != nil && !one.starving
}
