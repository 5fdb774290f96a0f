// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

func (p *Planner) nodeUpdated(old, object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	p.capacity.NodeChanged(node)
	if p.mirror.Owns(node) {
		p.problems.NodeChanged(node)
		p.reserving.set(node.Name, node.Annotations[reservation.Annotation] != "")
	}
	if before, ok := old.(*corev1.Node); !ok || filters.AdmissionChanged(before, node) {
		p.line.RetryAll()
		p.wakeAll()
	}
}

func (p *Planner) nodeDeleted(object any) {
	node, ok := informer.LastKnown(object).(*corev1.Node)
	if !ok {
		return
	}
	p.capacity.NodeGone(node.Name)
	p.problems.NodeGone(node.Name)
	p.reserving.set(node.Name, false)
	p.line.RetryAll()
	p.wake() // no Pod needs to wait for a place there any more, and others need no longer be spread over it
}

// reserving are the nodes with reservations, by name, as the informer shows them.
type reserving struct {
	mu    sync.Mutex
	nodes map[string]bool
}

// set records whether a node has any.
func (r *reserving) set(node string, has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !has:
		delete(r.nodes, node)
	case r.nodes == nil:
		r.nodes = map[string]bool{node: true}
	default:
		r.nodes[node] = true
	}
}

func (r *reserving) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes) > 0
}
