// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// watch tells the registry of Pods, and wakes those that wait when there may be
// more room.
func (p *Planner) watch() error {
	informers := p.handle.SharedInformerFactory().Core().V1()
	pods, errPods := informers.Pods().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.podThere(nil, object) },
		UpdateFunc: p.podThere,
		DeleteFunc: p.podGone,
	}, cache.HandlerOptions{Logger: &p.logger})
	_, errNodes := informers.Nodes().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.nodeThere(nil, object) },
		UpdateFunc: p.nodeThere,
	}, cache.HandlerOptions{Logger: &p.logger})
	if err := errors.Join(errPods, errNodes); err != nil {
		return fmt.Errorf("watching Pods and Nodes: %w", err)
	}
	p.synced = pods.HasSynced
	// Their Budgets are looked at when Pods are preempted.
	p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Informer()
	return nil
}

// settle is how long it may take until the scheduler's own cache shows what an
// informer has told us: they hear of it independently of each other.
const settle = time.Second

// wake tells that there may be more room than before.
func (p *Planner) wake() { p.registry.Wake(p.clock.Now()) }

func (p *Planner) podThere(old, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p.do(p.registry.Observe(pod))
	before, ok := old.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if holdsLess(before, pod) || before.Spec.NodeName == "" && p.awaitArrivals.CompareAndSwap(true, false) {
		p.wake()
	}
}

// holdsLess is true if a Pod may hold something else of its node than before: it
// was resized, or its cards are others than was thought.
func holdsLess(before, after *corev1.Pod) bool {
	return before.Spec.NodeName != "" && before.Annotations[inventory.AssignmentAnnotation] != after.Annotations[inventory.AssignmentAnnotation] ||
		before.Generation != after.Generation && !equality.Semantic.DeepEqual(before.Spec.Containers, after.Spec.Containers)
}

func (p *Planner) podGone(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p.do(p.registry.Forget(pod.UID))
	if pod.Spec.NodeName != "" {
		p.wake()
	}
}

func (p *Planner) nodeThere(old, object any) {
	node, ok := object.(*corev1.Node)
	if !ok || !p.mirror.Owns(node) {
		return
	}
	if before, ok := old.(*corev1.Node); !ok || admitsOthers(before, node) {
		p.wake()
	}
}

// admitsOthers is true if something has changed that decides who may go to a node.
func admitsOthers(before, after *corev1.Node) bool {
	return !maps.Equal(before.Labels, after.Labels) ||
		before.Annotations[inventory.Annotation] != after.Annotations[inventory.Annotation] ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}
