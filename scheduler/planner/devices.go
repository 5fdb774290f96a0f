// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/informer"
)

// watchDevices follows which GPUs resource claims hold. kube-scheduler watches these objects
// already. Without dynamic resource allocation there are none.
func (p *Planner) watchDevices() error {
	if p.handle.SharedDRAManager() == nil {
		return nil
	}
	informers := p.handle.SharedInformerFactory().Resource().V1()
	options := cache.HandlerOptions{Logger: &p.logger}
	sliceEvents, errSlices := informers.ResourceSlices().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.sliceChanged(nil, object) },
		UpdateFunc: p.sliceChanged,
		DeleteFunc: func(object any) { p.sliceChanged(informer.LastKnown(object), nil) },
	}, options)
	claimEvents, errClaims := informers.ResourceClaims().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.resourceClaimChanged(nil, object) },
		UpdateFunc: p.resourceClaimChanged,
		DeleteFunc: func(object any) { p.resourceClaimChanged(informer.LastKnown(object), nil) },
	}, options)
	if err := errors.Join(errSlices, errClaims); err != nil {
		return fmt.Errorf("watching ResourceSlices and ResourceClaims: %w", err)
	}
	p.synced = append(p.synced, sliceEvents.HasSynced, claimEvents.HasSynced)
	return nil
}

func (p *Planner) sliceChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceSlice)
	is, _ := after.(*resourcev1.ResourceSlice)
	p.devices.SliceChanged(was, is, p.clock.Now())
}

func (p *Planner) resourceClaimChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if p.devices.ClaimChanged(was, is, p.clock.Now()) {
		p.wake()
	}
}

// DevicesReserved records that a Pod may have been given devices.
func (p *Planner) DevicesReserved(pod *corev1.Pod) { p.devices.Reserved(pod, p.clock.Now()) }

// DevicesReleased records that a Pod may lose the devices that it was given: it was not bound.
func (p *Planner) DevicesReleased(pod *corev1.Pod) {
	if p.devices.Reserved(pod, p.clock.Now()) {
		p.wake()
	}
}

// refresh makes the mirror equal to the snapshot with these nodes, and to the devices that
// are allocated.
func (p *Planner) refresh(nodes []fwk.NodeInfo) {
	if manager := p.handle.SharedDRAManager(); manager != nil {
		p.refreshDevices(manager.ResourceClaims())
	}
	p.mirror.Refresh(nodes)
}

func (p *Planner) refreshDevices(claims fwk.ResourceClaimTracker) {
	held, due, err := p.devices.Held(claims, p.clock.Now())
	if err != nil {
		p.logger.Error(err, "Which GPUs resource claims hold is not known; those that they held before count")
	}
	if !due {
		return
	}
	changed, released := p.mirror.SetDevices(held)
	for _, node := range changed {
		p.live.setDevices(node, held[node])
	}
	if released {
		p.wake()
	}
}
