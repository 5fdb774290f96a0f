// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissioncheck answers the admission check gpu-fit of Kueue, for Workloads of any kind:
// whether there are places for all Pods that quota is reserved for. The answers are those of package
// gpufit; this package gathers what they need and writes them.
package admissioncheck

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/informer/optional"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// ControllerName is the spec.controllerName of the AdmissionChecks that are answered here.
const ControllerName = v1.GroupName + "/gpu-fit"

const (
	// passPause is the minimum time between two passes over the Workloads: changes come in bursts.
	passPause = 200 * time.Millisecond
	// passShare is how many times as long as a pass the pause after it is at least: with 10,000 nodes,
	// a pass takes a second or two.
	passShare = 4
	// passRetry is the delay before a pass is retried after an error, and between two looks at
	// Workloads that wait for a place or for their Pods.
	passRetry = time.Second
	// idle is the delay before the next pass if nothing changes.
	idle = time.Hour
	// messagePause is the minimum time between two writes of the same answer in other words.
	messagePause = 10 * time.Second
	// arrival is how long the places of a Workload that fits are kept for its Pods: longer than it
	// takes Kueue to admit it, its controller to create them and the scheduler to bind them. If one
	// of these hangs, others get the places.
	arrival = 2 * time.Minute
)

// Dependencies are what the check needs.
type Dependencies struct {
	// NodeInformers caches Nodes, trimmed at most as trimming.ForController does; Run starts it, unless somebody else
	// has.
	NodeInformers informers.SharedInformerFactory
	// Pods has the Pods that run, also those without GPUs; the caller runs it.
	Pods      *gpupods.Cache
	Dynamic   dynamic.Interface
	Discovery informer.Discoverer
	Clock     clock.WithTicker
}

// Check answers the admission check. A single goroutine, that of Run, does all the work.
type Check struct {
	deps    Dependencies
	options Options

	api    *optional.API
	nodes  corelisters.NodeLister
	synced []cache.InformerSynced
	// wake triggers a pass: something has changed.
	wake chan struct{}
	// waiting is true while a Workload waits for places: else changes of Pods and nodes don't matter.
	waiting atomic.Bool
	// said is when an answer to a Workload was written last, for messagePause.
	said map[types.UID]time.Time
}

// New returns a Check that watches nodes, Pods that run, and Kueue's objects, once it runs.
func New(ctx context.Context, deps Dependencies, options Options) (*Check, error) {
	nodes := deps.NodeInformers.Core().V1().Nodes()
	c := &Check{deps: deps, options: options, wake: make(chan struct{}, 1), said: map[types.UID]time.Time{}, nodes: nodes.Lister()}
	of := func(resource string) optional.Watched {
		return optional.Watched{
			Resource: resource, Transform: informer.WithoutManagedFields,
			Changed: func(*unstructured.Unstructured, bool) { c.trigger() },
		}
	}
	c.api = optional.New(deps.Dynamic, deps.Discovery, deps.Clock, schema.GroupVersion{Group: kueue.Group, Version: kueue.Version},
		c.trigger, of(kueue.Workloads), of(kueue.ResourceFlavors), of(kueue.AdmissionChecks))
	deps.Pods.KeepWithoutGPUs()
	deps.Pods.OnChange(c.clusterChanged)
	synced, err := informer.OnAnyChange(ctx, nodes.Informer(), func(*corev1.Node, bool) { c.clusterChanged() })
	c.synced = []cache.InformerSynced{synced, deps.Pods.HasSynced}
	return c, err
}

// clusterChanged has a pass follow each change in the cluster, while a Workload waits for a place.
func (c *Check) clusterChanged() {
	if c.waiting.Load() {
		c.trigger()
	}
}

// Run answers until ctx ends.
func (c *Check) Run(ctx context.Context) {
	c.deps.NodeInformers.StartWithContext(ctx)
	c.deps.Pods.Want()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.api.Run(ctx) })
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		return
	}
	again := c.deps.Clock.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-again.C():
		}
		again.Stop()
		began := c.deps.Clock.Now()
		again = c.deps.Clock.NewTimer(c.pass(ctx))
		select {
		case <-ctx.Done():
			return
		case <-c.deps.Clock.After(max(passPause, passShare*c.deps.Clock.Since(began))):
		}
	}
}

// trigger requests a pass.
func (c *Check) trigger() {
	select {
	case c.wake <- struct{}{}:
	default: // already requested
	}
}

// pass answers all Workloads that ask, and returns the delay before the next pass.
func (c *Check) pass(ctx context.Context) time.Duration {
	if c.api.Availability() != optional.Listed {
		return idle // it triggers when that changes
	}
	checks, err := c.activate(ctx)
	if err == nil {
		err = c.answer(ctx, checks)
	}
	switch {
	case err != nil:
		klog.FromContext(ctx).V(apierror.LogLevel(err)).Info("Answering admission checks failed, retrying", "err", err)
		return passRetry
	case c.waiting.Load():
		return passRetry
	default:
		return idle
	}
}
