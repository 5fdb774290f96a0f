// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package holders says which GPUs of a node containers hold that have them from somebody else
// than the DRA driver: from a device plugin, before the node was switched over or because it
// still runs, or from the DRA driver of another vendor.
package holders

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Others knows who else holds GPUs. The kubelet allocates the devices of plugins before it
// prepares claims, and lists them from then on.
type Others struct {
	kubelet podresources.Lister

	mu sync.Mutex
	// held are those of the latest list; nil before the first attempt to get one.
	held    map[string][]string
	changed chan struct{}
}

// New returns Others that asks the kubelet.
func New(kubelet podresources.Lister) *Others {
	return &Others{kubelet: kubelet, changed: make(chan struct{})}
}

// Refresh asks the kubelet. If it does not answer, its last answer counts.
func (o *Others) Refresh(ctx context.Context) {
	allocations, err := o.kubelet.List(ctx)
	held := Holders(allocations)
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.held == nil
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The kubelet does not list the devices in use", "err", err)
		if held = o.held; first {
			held = map[string][]string{}
		}
	}
	if first || !maps.EqualFunc(held, o.held, slices.Equal) {
		o.held = held
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// Started reports whether the kubelet has been asked.
func (o *Others) Started() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held != nil
}

// Holds reports whether somebody else held a GPU when the kubelet was last asked.
func (o *Others) Holds(uuid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.held[uuid]) > 0
}

// Changed returns a channel that is closed when others hold other GPUs.
func (o *Others) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// Check asks the kubelet, and returns an error that names the containers that hold any of these GPUs, or says why that
// is unknown.
func (o *Others) Check(ctx context.Context, uuids []string) error {
	allocations, err := o.kubelet.List(ctx)
	if err != nil {
		return fmt.Errorf("whether the GPUs are in use is unknown, the kubelet will try again: %w", err)
	}
	held := Holders(allocations)
	for _, uuid := range uuids {
		if by := held[uuid]; len(by) > 0 {
			return fmt.Errorf("GPU %s is in use by %s, which got it from somebody else than the DRA driver: let those Pods end, and let only one program give out the GPUs of this node, see the label %s",
				uuid, strings.Join(by, " and "), v1.LabelGPUAllocation)
		}
	}
	return nil
}

// Holders returns the containers that hold GPUs which they don't have from this driver, by the
// GPUs' UUIDs.
func Holders(allocations []podresources.Allocation) map[string][]string {
	held := map[string][]string{}
	for i := range allocations {
		a := &allocations[i]
		if a.Resource == v1.DRADriver {
			continue
		}
		for _, uuid := range share.GPUs(a.DeviceIDs) {
			holder := fmt.Sprintf("container %s of Pod %s/%s as %s", a.Container, a.Namespace, a.Pod, a.Resource)
			if !slices.Contains(held[uuid], holder) {
				held[uuid] = append(held[uuid], holder)
			}
		}
	}
	return held
}

// DeviceNodes looks up which of NVIDIA's device nodes CDI devices bring into a container.
type DeviceNodes interface {
	Of(names []string) cdi.DeviceNodes
}

// Translate returns which GPUs the devices of other DRA drivers are: those whose device nodes
// they bring along. A slice brings its GPU's along too, so the GPU counts as held.
func Translate(snapshot func() *gpu.Snapshot, nodes DeviceNodes) podresources.Translate {
	return func(device *podresources.ClaimedDevice) []string {
		if device.Driver == v1.DRADriver {
			return nil
		}
		minors := nodes.Of(device.CDI).GPUs
		var uuids []string
		gpus := snapshot().Devices
		for i := range gpus {
			if slices.Contains(minors, gpus[i].Minor) {
				uuids = append(uuids, gpus[i].UUID)
			}
		}
		return uuids
	}
}
