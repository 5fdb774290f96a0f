// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/reservation"
)

// Partial returns the Pods with a node of gangs that have had some such Pods, but too
// few, for too long while others wait: their places are of no use. Each gang is returned
// once, and again if that did not help. Pods that are being moved, by reservation.PodKey,
// count as if they had arrived.
func (r *Registry) Partial(now time.Time, moving map[string]bool) []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var stuck []*corev1.Pod
	for _, g := range r.groups {
		if g.Alone || !g.isPartial(moving) {
			g.partialSince = time.Time{}
			continue
		}
		if g.partialSince.IsZero() {
			g.partialSince = now
		}
		if now.Sub(g.partialSince) < r.timing.Partial {
			continue
		}
		g.partialSince = now
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
		return false // fast path for the usual cases
	}
	spec, err := g.spec()
	staying, waiting := g.count()
	if err != nil || staying == 0 || waiting == 0 {
		return false
	}
	return staying < spec.Min && staying+g.underWay(moving) < spec.Min
}

// underWay counts the members that are being moved and have not arrived. A Pod that
// leaves and its successor count once.
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

// Counts is how many gangs are in which state, without Pods in no gang.
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
