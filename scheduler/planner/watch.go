// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/trimming"
)

// watch keeps the registry up to date with Pods, and wakes waiting gangs when there may
// be more room.
func (p *Planner) watch() ([]cache.InformerSynced, error) {
	informers := p.handle.SharedInformerFactory().Core().V1()
	trimmer := trimming.ForScheduler()
	for _, one := range []cache.SharedIndexInformer{informers.Pods().Informer(), informers.Nodes().Informer()} {
		if err := one.SetTransform(trimmer.Transform); err != nil {
			return nil, fmt.Errorf("trimming Pods and Nodes: %w", err)
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
		return nil, fmt.Errorf("watching Pods, Nodes and PodDisruptionBudgets: %w", err)
	}
	return []cache.InformerSynced{pods.HasSynced}, nil
}

// cacheLag is how long it may take until the scheduler's own cache shows what an informer
// has delivered to us: each gets it independently.
const cacheLag = time.Second

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
