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

// keptNodes are the nodes that are kept for gangs that Pods were preempted for, and that will fit there once these have
// left. Meanwhile, only Pods that come before the gang in the queue may go there, and Pods without GPUs that leave it
// enough of everything.
type keptNodes struct {
	mu   sync.Mutex
	list map[string]*keptFor
	// cooldownUntil is when gangs whose nodes were kept for too long may have some kept again without stopping others.
	cooldownUntil map[string]time.Time
}

// keptFor is what is kept for one gang, and until when.
type keptFor struct {
	rank gangs.Rank
	// nodes are the nodes that are kept, each with what the gang's Pods will hold there.
	nodes map[string]mirror.Withheld
	// leaving are the Pods that hold a part of it now.
	leaving map[types.UID]bool
	until   time.Time
	// evicts is true if Pods are stopped for the gang now, and graceUntil is until when at least it is
	// kept because those that leave are still within their grace periods.
	evicts     bool
	graceUntil time.Time
	// queue is the gang's queue, and demand what it is going to hold there.
	queue  string
	demand queueing.Amounts
}

func newKeptNodes() *keptNodes {
	return &keptNodes{list: map[string]*keptFor{}, cooldownUntil: map[string]time.Time{}}
}

// demands returns what gangs that nodes are kept for are going to hold in their queues, except for one gang.
func (k *keptNodes) demands(except string) (list []queues.Demand) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for group, one := range k.list {
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
func (k *keptNodes) blockedNodes(attempt *gangs.Attempt, comesBefore func(*keptFor) bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	nodes := map[string]bool{}
	for group, one := range k.list {
		if group != attempt.Group.Key && !comesBefore(one) {
			for node := range one.nodes {
				nodes[node] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// groups returns the gangs that nodes are kept for.
func (k *keptNodes) groups() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	groups := make(map[string]bool, len(k.list))
	for group := range k.list {
		groups[group] = true
	}
	return groups
}

// pauses reports whether a gang may have no nodes kept now without stopping others, as its last ones have
// just expired: others have a chance first.
func (k *keptNodes) pauses(group string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.cooldownUntil[group])
}

// keepNodes keeps nodes for a gang, and has those tried again that others were kept from before.
func (p *Planner) keepNodes(attempt *gangs.Attempt, one *keptFor) {
	if p.kept.set(attempt, one) {
		p.wake()
	}
}

// set keeps nodes for a gang, in place of those that were kept for it so far. It reports whether any node may
// not be kept any more that was.
func (k *keptNodes) set(attempt *gangs.Attempt, one *keptFor) (ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	group := attempt.Group.Key
	one.rank = rankOf(attempt)
	if old := k.list[group]; old != nil {
		if !one.evicts {
			one.until = old.until // a victim that never terminates must not keep nodes from others forever
		}
		ended = !one.covers(old)
	}
	if one.until.Before(one.graceUntil) {
		one.until = one.graceUntil
	}
	k.list[group] = one
	return ended
}

// covers reports whether the nodes include all those of another keptFor.
func (one *keptFor) covers(other *keptFor) bool {
	for node := range other.nodes {
		if _, kept := one.nodes[node]; !kept {
			return false
		}
	}
	return true
}

// drop gives a group's nodes up. It reports whether there were any.
func (k *keptNodes) drop(group string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, had := k.list[group]
	delete(k.list, group)
	return had
}

// abandon gives a group's nodes up if nobody leaves for it but Pods that stay now. It reports whether there were any.
func (k *keptNodes) abandon(group string, staying []types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.list[group]
	if one == nil {
		return false
	}
	for uid := range one.leaving {
		if !slices.Contains(staying, uid) {
			return false
		}
	}
	delete(k.list, group)
	return true
}

// sweep gives up nodes that were kept for too long, or for a gang that is gone. A gang whose time has
// expired gives others a chance. It reports whether any were given up.
func (k *keptNodes) sweep(now time.Time, rest time.Duration, exists func(group string) bool) (ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.list)
	for group, one := range k.list {
		switch {
		case !exists(group):
			delete(k.list, group)
		case now.After(one.until):
			delete(k.list, group)
			k.cooldownUntil[group] = now.Add(rest)
		}
	}
	maps.DeleteFunc(k.cooldownUntil, func(_ string, until time.Time) bool { return now.After(until) })
	return len(k.list) < before
}

// count returns how many nodes are kept.
func (k *keptNodes) count() (nodes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.list {
		nodes += len(one.nodes)
	}
	return nodes
}

// any reports whether any nodes are kept, and has whether some are kept for a group.
func (k *keptNodes) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.list) > 0
}

func (k *keptNodes) has(group string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[group] != nil
}

// keptForOthers returns the nodes that are kept from a gang, except those on which
// places are reserved for it.
func (p *Planner) keptForOthers(attempt *gangs.Attempt) []string {
	if !p.kept.any() {
		return nil
	}
	nodes := p.kept.blockedNodes(attempt, p.precedenceOf(attempt))
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

// precedenceOf returns whether a gang comes before one that nodes are kept for. With GPUQueues, priorities decide in a
// queue only: otherwise the Pods of a higher priority that had to give back GPUs would take them again at once. A gang
// of another queue comes before it if it gets what its queue is guaranteed and the other one does not, or if it has the
// priority of critical system Pods.
func (p *Planner) precedenceOf(attempt *gangs.Attempt) func(*keptFor) bool {
	rank, state, guaranteed := rankOf(attempt), p.line.State(), p.line.IsGuaranteed(attempt.Group.Key)
	queue, anyQueue := state.QueueOf(attempt.Waiting[0].Pod()).Queue, !state.Tree().HasQueues() || attempt.Priority >= preemption.SystemCritical
	return func(one *keptFor) bool {
		if one.queue == queue || anyQueue {
			return rank.Compare(one.rank) <= 0
		}
		return guaranteed && !p.line.IsGuaranteed(one.rank.Group)
	}
}

// endPlaces ends what is kept for a gang that has got its place, or no longer waits.
func (p *Planner) endPlaces(group string) {
	kept, booked := p.kept.drop(group), p.line.Drop(group)
	if kept || booked {
		p.wake()
		p.admitTurnedAway()
	}
}
