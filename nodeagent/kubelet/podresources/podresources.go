// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources asks the kubelet which containers hold which devices.
package podresources

import "context"

// Allocation says that a container holds devices of one resource.
type Allocation struct {
	Namespace, Pod, Container string
	// Resource is the name of the extended resource, for example
	// "falldio.com/gpu".
	Resource string
	// DeviceIDs are sorted; for GPUs they are UUIDs, for shares of GPUs what
	// package share says.
	DeviceIDs []string
}

// Lister lists the allocations of a node.
type Lister interface {
	List(ctx context.Context) ([]Allocation, error)
}
