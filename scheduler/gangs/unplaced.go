// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import corev1 "k8s.io/api/core/v1"

// Fails reports whether a gang waits because its last attempt found no place.
func (r *Registry) Fails(gang string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.groups[gang].fails()
}

func (g *Group) fails() bool {
	return g != nil && g.plan == nil && !g.retry.failedAt.IsZero()
}

// Leader returns the Pod of such a gang that has scheduling cycles; nil if none waits.
func (r *Registry) Leader(gang string) *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[gang]
	if !g.fails() {
		return nil
	}
	if g.elect(); g.leader == nil {
		return nil
	}
	return g.leader.Pod()
}

// Unplaced returns the Pods of such a gang that wait, in order. The leader is not among
// them: kube-scheduler itself says why it waits.
func (r *Registry) Unplaced(gang string) (pods []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[gang]
	if !g.fails() {
		return nil
	}
	g.elect()
	for _, m := range g.waitingMembers() {
		if m != g.leader {
			pods = append(pods, m.Pod())
		}
	}
	return pods
}
