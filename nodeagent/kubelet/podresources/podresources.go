// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources lists which containers hold which devices, through the kubelet's
// pod-resources API.
package podresources

import "context"

// Allocation is the devices of one resource that a container holds.
type Allocation struct {
	Namespace, Pod, Container string
	// Resource is the name of the extended resource, for example "falldio.com/gpu", or that
	// of the DRA driver, for example "gpu.nvidia.com".
	Resource string
	// DeviceIDs are sorted; for GPUs they are UUIDs, for shares of GPUs see package share.
	// Those of a DRA driver are what Translate returns.
	DeviceIDs []string
}

// ClaimedDevice is a device that a DRA driver has given to a container.
type ClaimedDevice struct {
	Driver, Pool, Name string
	// CDI are the names by which the container runtime knows it.
	CDI []string
}

// Translate returns the UUIDs of the GPUs that a claimed device is, or is a part of; none if
// it is no GPU of this node, as far as is known.
type Translate func(*ClaimedDevice) []string

// Lister lists the allocations of a node.
type Lister interface {
	List(ctx context.Context) ([]Allocation, error)
}
