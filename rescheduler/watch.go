// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// watch adds event handlers that trigger a pass when something changes that plans depend
// on. Tasks and their Pods are watched by the controller, which calls Changed.
func (r *Rescheduler) watch(ctx context.Context, plans, nodes, budgets cache.SharedIndexInformer) error {
	err := errors.Join(
		r.onChange(ctx, "moveplans.falldio.com", plans, func(_, after any) {
			if plan, ok := informer.LastKnown(after).(*v1.MovePlan); ok {
				r.expectations.ObserveVersion(plan.Name, plan.ResourceVersion)
				if isUnderWay(plan) {
					r.executing.Store(true)
				}
				r.trigger()
			}
		}),
		r.onChange(ctx, "nodes", nodes, func(before, after any) {
			if reservationsOf(before) != reservationsOf(after) {
				r.trigger()
				return
			}
			r.Changed()
		}),
		r.onChange(ctx, "poddisruptionbudgets.policy", budgets, func(_, _ any) { r.Changed() }),
	)
	r.caches = append(r.caches, namedCache{"pods", r.deps.Pods.HasSynced}) // a plan is checked when its next turn begins
	return err
}

func (r *Rescheduler) onChange(ctx context.Context, resource string, watched cache.SharedIndexInformer, changed func(before, after any)) error {
	synced, err := informer.Handle(ctx, watched, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object) },
		UpdateFunc: changed,
		DeleteFunc: func(object any) { changed(nil, object) },
	})
	if err != nil {
		return err
	}
	r.caches = append(r.caches, namedCache{resource, synced})
	return nil
}

// reservationsOf returns the value of a node's reservations annotation.
func reservationsOf(object any) string {
	node, ok := informer.LastKnown(object).(*corev1.Node)
	if !ok {
		return ""
	}
	return node.Annotations[reservation.Annotation]
}
