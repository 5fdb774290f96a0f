// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

func (p *Planner) podUpdated(old, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p.devices.PodChanged(pod)
	p.do(p.registry.Observe(pod))
	before, ok := old.(*corev1.Pod)
	if pod.Spec.NodeName == "" {
		return
	}
	p.capacity.PodChanged(pod)
	if !ok {
		return
	}
	arrived := before.Spec.NodeName == ""
	p.problems.PodChanged(before, pod)
	if arrived {
		p.term.CheckBinder(pod)
	}
	if snapshot.ResourcesChanged(before, pod) || arrived && snapshot.HasGPUsOfClaim(pod) || arrived && p.evictor.Arrived() {
		p.wake()
	}
	if arrived || !maps.Equal(before.Labels, pod.Labels) {
		if arrived {
			before = nil // for plugins, Pods come into being with their nodes
		}
		if p.filters.PodChanged(before, pod) {
			p.wake()
		}
	}
}

func (p *Planner) podDeleted(object any) {
	pod, ok := informer.LastKnown(object).(*corev1.Pod)
	if !ok {
		return
	}
	p.devices.PodGone(pod)
	p.forgetPod(pod)
	if pod.Spec.NodeName != "" {
		if _, missed := object.(cache.DeletedFinalStateUnknown); !missed {
			p.line.Ended(pod)
		}
		p.wake()
	}
}

// forgetPod records that a Pod is gone, and ends what is kept for its gang if no other member waits.
func (p *Planner) forgetPod(pod *corev1.Pod) {
	member := p.registry.Member(pod.UID)
	p.capacity.PodGone(pod) // before the registry forgets it: see Evictor.Mark
	p.do(p.registry.Forget(pod.UID))
	if member != nil && !p.registry.Waits(member.Group().Key) {
		p.endPlaces(member.Group().Key)
	}
}
