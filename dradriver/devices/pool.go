// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Pool returns what a node publishes: one pool with the name of the node, in as many
// ResourceSlices as are needed. Without devices it has an empty one, which says that the driver
// runs.
func Pool(node string, devices []resourceapi.Device) resourceslice.DriverResources {
	pool := resourceslice.Pool{}
	// A GPU may get a taint at any time, and slices with taints must be smaller.
	for chunk := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: chunk})
	}
	if len(pool.Slices) == 0 {
		pool.Slices = []resourceslice.Slice{{}}
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}
