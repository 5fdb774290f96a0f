// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// Claimed returns what a node must have left, beyond what is in use there, for the gangs that
// claim it and come before a Pod without GPUs, and for those that have it reserved. What the Pods hold that leave for a gang is
// in use, and will be the gang's: it does not count twice. Pods of DaemonSets have
// only this node to go to, and respect no claims.
func (p *Planner) Claimed(pod *corev1.Pod, info fwk.NodeInfo) mirror.Withheld {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return mirror.Withheld{}
	}
	needs, leaving := p.claims.on(info.Node().Name, gangs.Rank{
		Priority: schedulingv1.PodPriority(pod), Since: pod.CreationTimestamp.Time, UID: pod.UID,
	})
	ahead := p.ahead.on(info.Node().Name)
	if needs.Pods == 0 {
		return needs.Plus(ahead)
	}
	for _, one := range info.GetPods() {
		if there := one.GetPod(); leaving[there.UID] {
			needs = needs.Minus(requestsOf(there))
		}
	}
	return needs.Plus(ahead)
}

// requestsOf returns what a Pod holds on its node besides GPUs.
func requestsOf(pod *corev1.Pod) mirror.Withheld {
	use := snapshot.Use(pod, nil)
	return mirror.WithheldFor(&use)
}

// on returns what gangs of a better rank need of a node, and the Pods that leave for them.
func (c *claims) on(node string, rank gangs.Rank) (needs mirror.Withheld, leaving map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		needed, claimed := one.nodes[node]
		if !claimed || one.rank.Compare(rank) > 0 {
			continue
		}
		needs = needs.Plus(needed)
		if leaving == nil {
			leaving = map[types.UID]bool{}
		}
		maps.Copy(leaving, one.leaving)
	}
	return needs, leaving
}

// any reports whether any gang claims nodes.
func (c *claims) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list) > 0
}
