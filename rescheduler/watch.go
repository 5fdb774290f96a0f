// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// watch makes changes of what plans depend on wake the rescheduler. Tasks and their
// Pods are watched by the controller anyway: see changed.
func (r *rescheduler) watch(ctx context.Context, plans, nodes, budgets cache.SharedIndexInformer) error {
	return errors.Join(
		r.onChange(ctx, "moveplans.falldio.com", plans, func(_, after any) {
			if plan, ok := unwrapTombstone(after).(*v1.MovePlan); ok {
				r.unseen.saw(plan)
				if isUnderWay(plan) {
					r.active.Store(true)
				}
				r.poke()
			}
		}),
		r.onChange(ctx, "nodes", nodes, func(before, after any) {
			if annotation(before) != annotation(after) {
				r.poke()
				return
			}
			r.changed()
		}),
		r.onChange(ctx, "poddisruptionbudgets.policy", budgets, func(_, _ any) { r.changed() }),
	)
}

func (r *rescheduler) onChange(ctx context.Context, resource string, informer cache.SharedIndexInformer, changed func(before, after any)) error {
	registration, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object) },
		UpdateFunc: changed,
		DeleteFunc: func(object any) { changed(nil, object) },
	}, cache.HandlerOptions{Logger: loggerOf(ctx)})
	if err != nil {
		return err
	}
	r.caches = append(r.caches, namedCache{resource, registration.HasSynced})
	return nil
}

// annotation returns what is reserved on a node, as text.
func annotation(object any) string {
	node, ok := unwrapTombstone(object).(*corev1.Node)
	if !ok {
		return ""
	}
	return node.Annotations[reservation.Annotation]
}

// changed is called for every change of a task, a Pod, a node or a budget. Most of
// them are nothing to the rescheduler.
func (r *rescheduler) changed() {
	if r != nil && r.active.Load() {
		r.poke()
	}
}
