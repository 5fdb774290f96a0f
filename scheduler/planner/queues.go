// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/queuewatch"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/history"
)

// watchQueues follows the GPUQueues until ctx ends.
func (p *Planner) watchQueues(ctx context.Context) ([]cache.InformerSynced, error) {
	config := p.handle.KubeConfig()
	if config == nil {
		return nil, nil
	}
	json := rest.CopyConfig(config)
	json.ContentType, json.AcceptContentTypes = "", "" // custom resources are served as JSON only
	client, err := versioned.NewForConfig(json)
	if err != nil {
		return nil, fmt.Errorf("client for GPUQueues: %w", err)
	}
	watcher, changed := queuewatch.New(client, p.clock), make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // signalled already
		}
	}
	watcher.OnChange(func(string) { signal() })
	synced, err := informer.Handle(ctx, p.handle.SharedInformerFactory().Core().V1().Namespaces().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() },
		UpdateFunc: func(old, object any) {
			before, wasNamespace := old.(*corev1.Namespace)
			after, isNamespace := object.(*corev1.Namespace)
			if wasNamespace && isNamespace && !maps.Equal(before.Labels, after.Labels) {
				signal()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	p.line.Follow(watcher)
	go watcher.Run(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				p.queuesChanged()
			}
		}
	}()
	return []cache.InformerSynced{synced}, nil
}

// queuesChanged is called when GPUQueues or the labels of namespaces have changed.
func (p *Planner) queuesChanged() {
	p.line.Order()
	p.wake()
	p.admitTurnedAway()
}

// namespace returns a namespace; nil if it is not known.
func (p *Planner) namespace(name string) *corev1.Namespace {
	found, err := p.handle.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return found
}

// HistoryPeriod returns how often what was learned from the past is to be written; 0 for never.
func (p *Planner) HistoryPeriod() time.Duration { return config.Seconds(p.args.HistoryPeriodSeconds) }

// History returns what is learned from the past.
func (p *Planner) History() []history.Section { return p.line.History() }
