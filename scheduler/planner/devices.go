// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// refresh makes the mirror equal to the snapshot with these nodes, and to the devices that
// are allocated.
func (p *Planner) refresh(nodes []fwk.NodeInfo) {
	p.devices.Refresh(p.mirror, p.capacity.DevicesChanged)
	p.mirror.Refresh(nodes)
}

// PlannedDevices returns the GPUs that a Pod gets by a Decision, as far as it gets them by resource
// claims: its own, or those that kube-scheduler makes for extended resources. If its profile
// chooses the node, these are the GPUs that it would get on each node.
func (p *Planner) PlannedDevices(pod *corev1.Pod, decision *Decision) resourceclaims.Places {
	places := resourceclaims.Places{}
	if decision.Node != "" {
		if node, uuids := p.mirror.CardsOverClaims(pod.UID); node == decision.Node {
			places[node] = sets.New(uuids...)
		}
		return places
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return places
	}
	for node := range decision.Order {
		place, fits := p.finder.placeOn(attempt, node, nil)
		if !fits {
			continue
		}
		if uuids := p.mirror.NamesOverClaims(node, &place.Use); len(uuids) > 0 {
			places[node] = sets.New(uuids...)
		}
	}
	return places
}

// SeatedDevices returns the GPUs that are kept for Pods which are being scheduled, as far as Pods
// get them by resource claims.
func (p *Planner) SeatedDevices() resourceclaims.Places {
	places := resourceclaims.Places{}
	for node, uuids := range p.mirror.SeatedOverClaims() {
		places[node] = sets.New(uuids...)
	}
	return places
}
