// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/eviction"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// makeRoom keeps the nodes of a plan for a gang and evicts the victims: never one without the other. It returns false
// if nobody has to be told to leave, or those who leave already have to be awaited first.
func (p *Planner) makeRoom(ctx context.Context, pod *corev1.Pod, s *search, found *preemptionPlan) (evicts bool) {
	now, victims, group := p.clock.Now(), found.victims, s.attempt.Group.Key
	if len(victims) == 0 {
		if !p.kept.pauses(group, now) {
			p.keepNodes(s.attempt, p.nodesToKeep(found, now))
		}
		return false
	}
	if p.evictor.UnderWay(group) {
		return false // what was kept for it stays so until its victims are gone
	}
	p.keepNodes(s.attempt, p.nodesToKeep(found, now))
	p.evictor.Begin(group, victims, found.budgets)
	ctx = context.WithoutCancel(ctx) // the scheduling cycle, whose context this is, ends earlier
	p.evictor.Nominate(ctx, group, nominationsFor(s.request, found), s.attempt.Waiting[0].UID)
	go p.evictor.Evict(ctx, group, pod, victims, found.taken)
	return true
}

// nodesToKeep returns the nodes of a plan, to keep them for its gang. That lasts until the grace periods of all that
// leave have ended, and claimSeconds longer.
func (p *Planner) nodesToKeep(found *preemptionPlan, now time.Time) *keptFor {
	lasts := p.keepTime()
	one := &keptFor{
		nodes: mirror.RoomOf(found.plan), leaving: found.leaving, evicts: len(found.victims) > 0,
		until:      now.Add(lasts + eviction.LongestTime(found.victims, found.taken)),
		graceUntil: found.graceUntil.Add(lasts),
	}
	if found.taken != nil {
		one.queue, one.demand = found.taken.Asked()
	}
	return one
}

// keepTime is how long nodes are kept beyond the time that those need who leave.
func (p *Planner) keepTime() time.Duration { return config.Seconds(p.args.ClaimSeconds) }

// makingRoom reports whether Pods leave for a gang.
func (p *Planner) makingRoom(group string) bool {
	return p.evictor.UnderWay(group) || p.kept.has(group)
}
