// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// publisher keeps the ResourceSlices of a node in line with its GPUs and their health.
type publisher struct {
	node    string
	options devices.Options
	gpus    gpus
	// started reports whether it is known which GPUs containers can get. described and held
	// return channels that are closed when others can be described, or others are held; nil if
	// that never changes.
	started         func() bool
	described, held func() <-chan struct{}
	publish         func(context.Context, resourceslice.DriverResources) error

	last []resourceapi.Device
	// published is how many devices have been published; nil before the first time.
	published atomic.Pointer[int]
}

// run publishes what has changed, until ctx ends. The measurements of every poll are no change:
// only another list of devices makes a request to the API server.
func (p *publisher) run(ctx context.Context) error {
	for {
		polled, described, held := p.gpus.Changed(), p.described(), p.held()
		if snapshot := p.gpus.Snapshot(); snapshot.Known() && p.started() {
			if err := p.update(ctx, snapshot); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-polled:
		case <-described:
		case <-held:
		}
	}
}

func (p *publisher) update(ctx context.Context, snapshot *gpu.Snapshot) error {
	list := devices.Of(snapshot, p.options)
	if p.published.Load() != nil && equality.Semantic.DeepEqual(list, p.last) {
		return nil
	}
	if err := p.publish(ctx, devices.Pool(p.node, list)); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("The devices have changed", "devices", len(list), "tainted", tainted(list))
	p.last = list
	p.published.Store(new(len(list)))
	return nil
}

func tainted(list []resourceapi.Device) (count int) {
	for i := range list {
		if len(list[i].Taints) > 0 {
			count++
		}
	}
	return count
}
