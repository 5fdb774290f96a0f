// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/reservation"
)

// Partial returns the Pods of gangs of which, for too long, some but too few have
// a node while others wait: their places help nobody. Each gang is returned once,
// and again if that did not help. Pods that are moved, by reservation.PodKey, are on
// their way: they count as if they had arrived.
func (r *Registry) Partial(now time.Time, moving map[string]bool) []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var stuck []*corev1.Pod
	for _, g := range r.groups {
		if g.Alone || !g.isPartial(moving) {
			g.partial = time.Time{}
			continue
		}
		if g.partial.IsZero() {
			g.partial = now
		}
		if now.Sub(g.partial) < r.timing.Partial {
			continue
		}
		g.partial = now
		for _, m := range g.members {
			if m.ours && m.stays() {
				stuck = append(stuck, m.Pod())
			}
		}
	}
	return stuck
}

func (g *Group) isPartial(moving map[string]bool) bool {
	if g.bound == 0 || len(g.members) == g.bound {
		return false // the usual cases, at no cost
	}
	spec, err := g.spec()
	staying, waiting := g.count()
	if err != nil || staying == 0 || waiting == 0 {
		return false
	}
	return staying < spec.Min && staying+g.underWay(moving) < spec.Min
}

// underWay counts the members that are moved and have not arrived. One that leaves and
// its successor are the same.
func (g *Group) underWay(moving map[string]bool) int {
	if len(moving) == 0 {
		return 0
	}
	pods := map[string]bool{}
	for _, m := range g.members {
		if key := reservation.PodKey(m.Pod().Namespace, m.Pod().Name); moving[key] && !m.stays() && m.seat == nil {
			pods[key] = true
		}
	}
	return len(pods)
}

// ours reports whether any member is scheduled by this process.
func (g *Group) ours() bool {
	for _, m := range g.members {
		if m.ours {
			return true
		}
	}
	return false
}

// Counts are how many gangs, without Pods that are alone, are in which state.
type Counts struct {
	Gathering, Waiting, Planned, Running int
}

// Count returns how many gangs are in which state.
func (r *Registry) Count() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := Counts{}
	for _, g := range r.groups {
		switch {
		case g.Alone || !g.ours():
		case g.plan != nil:
			counts.Planned++
		case g.bound > 0:
			counts.Running++
		case g.complete():
			counts.Waiting++
		default:
			counts.Gathering++
		}
	}
	return counts
}
