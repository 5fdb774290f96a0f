// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources lists which containers hold which devices, through the kubelet's
// pod-resources API.
package podresources

import "context"

// Allocation is the devices of one resource that a container holds.
type Allocation struct {
	Namespace, Pod, Container string
	// Resource is the name of the extended resource, for example
	// "falldio.com/gpu".
	Resource string
	// DeviceIDs are sorted; for GPUs they are UUIDs, for shares of GPUs see package share.
	DeviceIDs []string
}

// Lister lists the allocations of a node.
type Lister interface {
	List(ctx context.Context) ([]Allocation, error)
}
