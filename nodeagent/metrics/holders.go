// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync/atomic"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// Holder is a container that holds a GPU.
type Holder struct {
	Namespace, Pod, Container, Resource string
	// Percent is how much of the GPU it holds: 100 unless it is a share.
	Percent int
}

// Holders caches which containers hold which devices.
type Holders struct {
	lister  podresources.Lister
	current atomic.Pointer[map[string][]Holder]
}

// NewHolders returns Holders with an empty cache.
func NewHolders(lister podresources.Lister) *Holders { return &Holders{lister: lister} }

// Refresh lists the kubelet's allocations and returns them. On failure it clears the cache:
// metrics of a deleted Pod would be worse than none.
func (h *Holders) Refresh(ctx context.Context) ([]podresources.Allocation, error) {
	allocations, err := h.lister.List(ctx)
	holders := map[string][]Holder{}
	for _, allocation := range allocations {
		for gpu, percent := range percents(allocation.DeviceIDs) {
			holders[gpu] = append(holders[gpu], Holder{
				Namespace: allocation.Namespace, Pod: allocation.Pod, Container: allocation.Container, Resource: allocation.Resource,
				Percent: percent,
			})
		}
	}
	h.current.Store(&holders)
	return allocations, err
}

// percents returns the percentage of each device, which adds up the shares of a GPU.
func percents(ids []string) map[string]int {
	parts := make(map[string]int, 1)
	for _, id := range ids {
		device, isShare := share.Of(id)
		if isShare {
			parts[device]++
		} else {
			parts[device] += share.PerGPU
		}
	}
	return parts
}

// Of returns the containers that hold a device.
func (h *Holders) Of(id string) []Holder {
	if current := h.current.Load(); current != nil {
		return (*current)[id]
	}
	return nil
}
