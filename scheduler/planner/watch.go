// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/trimming"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

// watch keeps the registry up to date with Pods, and wakes waiting gangs when there may
// be more room.
func (p *Planner) watch() error {
	informers := p.handle.SharedInformerFactory().Core().V1()
	trimmer := trimming.ForScheduler()
	for _, one := range []cache.SharedIndexInformer{informers.Pods().Informer(), informers.Nodes().Informer()} {
		if err := one.SetTransform(trimmer.Transform); err != nil {
			return fmt.Errorf("trimming Pods and Nodes: %w", err)
		}
	}
	pods, errPods := informers.Pods().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.podUpdated(nil, object) },
		UpdateFunc: p.podUpdated,
		DeleteFunc: p.podDeleted,
	}, cache.HandlerOptions{Logger: &p.logger})
	_, errNodes := informers.Nodes().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.nodeUpdated(nil, object) },
		UpdateFunc: p.nodeUpdated,
		DeleteFunc: p.nodeDeleted,
	}, cache.HandlerOptions{Logger: &p.logger})
	_, errBudgets := p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		UpdateFunc: p.evictor.BudgetUpdated,
		DeleteFunc: func(any) { p.evictor.BudgetGone() },
	}, cache.HandlerOptions{Logger: &p.logger})
	if err := errors.Join(errPods, errNodes, errBudgets); err != nil {
		return fmt.Errorf("watching Pods, Nodes and PodDisruptionBudgets: %w", err)
	}
	p.synced = append(p.synced, pods.HasSynced)
	return nil
}

// cacheLag is how long it may take until the scheduler's own cache shows what an informer
// has delivered to us: each gets it independently.
const cacheLag = time.Second

// wake records that there may be more room than before.
func (p *Planner) wake() { p.registry.Wake(p.clock.Now()) }

// endPlaces ends what is kept for a gang that has got its place, or no longer waits.
func (p *Planner) endPlaces(group string) {
	claimed, reserved := p.claims.drop(group), p.line.Drop(group)
	if claimed || reserved {
		p.wake()
		p.admitTurnedAway()
	}
}

// wakeAll records that nodes have changed, so that there may be room for what would never have fitted before.
func (p *Planner) wakeAll() { p.registry.WakeAll(p.clock.Now()) }

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
	if arrived && p.term.IsForeign(pod) {
		p.metrics.foreign.Inc()
	}
	if snapshot.ResourcesChanged(before, pod) || arrived && snapshot.HasGPUsOfClaim(pod) || arrived && p.awaitArrivals.CompareAndSwap(true, false) {
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

// followFilters has gangs tried again when something changes that filters look at.
func (p *Planner) followFilters(ctx context.Context) {
	p.filters.Follow(ctx, p.handle.SharedInformerFactory(), p.objectChanged)
}

// objectChanged is called when an object that a filter looks at was added, updated or deleted.
func (p *Planner) objectChanged(kind fwk.EventResource, before, after any) {
	if p.filters.ObjectChanged(kind, before, after) {
		p.line.RetryAll()
		p.wake()
	}
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
