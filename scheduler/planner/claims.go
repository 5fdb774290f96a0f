// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// claims keep nodes for gangs that will fit there once others have left: those that have
// waited for too long, and those that Pods were preempted for. Meanwhile, only Pods that
// come before the gang in the queue, and Pods without GPUs, may go there.
type claims struct {
	mu   sync.Mutex
	list map[string]*claim
	// cooldownUntil is when gangs whose claim has expired may claim again.
	cooldownUntil map[string]time.Time
}

type claim struct {
	rank     gangs.Rank
	nodes    map[string]bool
	until    time.Time
	starving bool
}

func newClaims() *claims {
	return &claims{list: map[string]*claim{}, cooldownUntil: map[string]time.Time{}}
}

func rankOf(attempt *gangs.Attempt) gangs.Rank {
	return gangs.Rank{Priority: attempt.Priority, Since: attempt.Group.Since, Group: attempt.Group.Key}
}

// blockedNodes returns the nodes that are kept from a gang, in order.
func (c *claims) blockedNodes(attempt *gangs.Attempt) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return nil
	}
	rank, nodes := rankOf(attempt), map[string]bool{}
	for group, one := range c.list {
		if group != attempt.Group.Key && one.rank.Compare(rank) < 0 {
			maps.Copy(nodes, one.nodes)
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// set keeps nodes for a gang, unless its last claim has just expired.
func (c *claims) set(attempt *gangs.Attempt, nodes map[string]bool, now, until time.Time, starving bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.cooldownUntil[attempt.Group.Key]) {
		return
	}
	if old := c.list[attempt.Group.Key]; old != nil && old.until.Before(until) {
		until = old.until // a victim that never terminates must not keep them claimed forever
	}
	c.list[attempt.Group.Key] = &claim{rank: rankOf(attempt), nodes: nodes, until: until, starving: starving}
}

// mayClaim reports whether a gang may claim nodes: it has no claim, its last one has not
// just expired, and no starving gang comes before it.
func (c *claims) mayClaim(attempt *gangs.Attempt, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list[attempt.Group.Key] != nil || now.Before(c.cooldownUntil[attempt.Group.Key]) {
		return false
	}
	rank := rankOf(attempt)
	for _, one := range c.list {
		if one.starving && one.rank.Compare(rank) < 0 {
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

// claimIfStarving keeps nodes for a gang that has waited for too long and will fit there.
func (p *Planner) claimIfStarving(attempt *gangs.Attempt, gang *roles, now time.Time) {
	patience := config.Seconds(p.args.StarvationSeconds)
	if patience == 0 || attempt.WaitsSince.IsZero() || now.Sub(attempt.WaitsSince) < patience || !p.claims.mayClaim(attempt, now) {
		return
	}
	explanation, err := p.diagnose(attempt, gang)
	if err != nil || explanation == nil {
		return
	}
	nodes := p.nodesAfter(attempt, gang, explanation)
	if len(nodes) == 0 {
		return
	}
	p.logger.Info("A gang has waited for too long; nodes are kept for it", "gang", attempt.Group.Key, "nodes", len(nodes))
	p.claims.set(attempt, nodes, now, now.Add(config.Seconds(p.args.ClaimSeconds)), true)
}

// nodesAfter returns the nodes that a gang would go to once the GPUs that an explanation
// names are free.
func (p *Planner) nodesAfter(attempt *gangs.Attempt, gang *roles, explanation *placement.Explanation) map[string]bool {
	index := slices.IndexFunc(explanation.Remedies, func(r placement.Remedy) bool { return r.Kind == placement.FreeGPUs })
	if index < 0 {
		return nil
	}
	nodes := map[string]bool{}
	p.mirror.For(p.requesterOf(attempt), func(cluster *placement.Cluster) {
		cluster.Try(func() bool {
			for node, cards := range explanation.Remedies[index].Free {
				for _, pod := range p.mirror.On(node, cards) {
					cluster.Remove(pod)
				}
			}
			gang.tryNear(func() bool {
				plan, fits, err := cluster.Plan(&gang.Gang)
				if err != nil || !fits {
					return false
				}
				for i := range plan.Members {
					nodes[plan.Members[i].Node] = true
				}
				return true
			})
			return false
		})
	})
	return nodes
}
