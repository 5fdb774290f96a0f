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
	for g := range r.mixed {
		if !g.isPartial(moving) {
			g.partialSince = time.Time{}
			if !g.isMixed() {
				delete(r.mixed, g)
			}
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

// isMixed reports whether some but not all members of a gang have a node.
func (g *Group) isMixed() bool { return !g.Alone && g.bound > 0 && g.bound < len(g.members) }

func (g *Group) isPartial(moving map[string]bool) bool {
	if !g.isMixed() {
		return false
	}
	spec, err := g.spec()
	staying, waiting := g.count()
	if err != nil || staying == 0 || waiting == 0 {
		return false
	}
	return staying < spec.Min && staying+g.underWay(moving)+g.toLeave() < spec.Min
}

// toLeave counts the members that run and are about to be deleted, such as those that save their work
// before they are preempted: the others are of use as long as these are there.
func (g *Group) toLeave() (count int) {
	for _, m := range g.members {
		if m.bound() && m.terminating && !m.deleting() {
			count++
		}
	}
	return count
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
