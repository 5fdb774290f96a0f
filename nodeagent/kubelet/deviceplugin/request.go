// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// request is the kubelet's request for a container.
type request struct {
	// available are the devices that may be allocated, must those of them that must be:
	// its Pod's init containers had them.
	available, must []string
	// size is the number of devices to allocate.
	size int
}

// of returns the available devices that are these GPUs, or shares of them.
func (r *request) of(gpus []string) []string {
	return slices.DeleteFunc(slices.Clone(r.available), func(id string) bool { return !slices.Contains(gpus, share.GPU(id)) })
}

// take returns as many of the devices as requested: first those that must be allocated,
// then the others in the order of their indexes.
func (r *request) take(list *listing, ids []string) []string {
	taken := slices.Clone(r.must)
	must := sets.New(r.must...)
	for _, id := range list.sorted(ids) {
		if len(taken) < r.size && !must.Has(id) {
			taken = append(taken, id)
		}
	}
	return list.sorted(taken)
}

// without returns the request without the unwanted devices, or unchanged if too few would
// be left.
func (r *request) without(unwanted func(id string) bool) request {
	must := sets.New(r.must...)
	fewer := *r
	fewer.available = slices.DeleteFunc(slices.Clone(r.available), func(id string) bool { return !must.Has(id) && unwanted(id) })
	if len(fewer.available) < r.size {
		return *r
	}
	return fewer
}
