// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpu describes the GPUs of a node: their properties, their measurements and their
// health. It depends on neither NVML nor Kubernetes, so that real and simulated GPUs look
// the same to everything else.
package gpu

import "reflect"

// Driver is the software that runs the GPUs.
type Driver struct {
	// Version is the driver's version, for example "570.124.06".
	Version string
	// CUDA is the newest CUDA version that the driver supports, for example
	// "12.8"; empty if unknown.
	CUDA string
}

// Unknown is the NUMA node or the NVLink group of a GPU without one.
const Unknown = -1

// Info is the properties of a GPU that do not change while the Source is open: when one does,
// Read fails with ErrStale.
type Info struct {
	// Index counts a node's GPUs from 0, in the driver's order.
	Index int
	// UUID identifies the GPU permanently, for example
	// "GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7b2".
	UUID string
	// Product is the vendor's name, for example "NVIDIA H100 80GB HBM3".
	Product string
	// MemoryBytes is all of the GPU's memory.
	MemoryBytes uint64
	// PCIBusID is the address on the PCI bus, "00000000:1B:00.0".
	PCIBusID string
	// Minor is the number of the device file /dev/nvidia<minor>.
	Minor int
	// NUMANode is the NUMA node that the GPU is attached to, or Unknown.
	NUMANode int
	// ComputeCapability is for example "9.0".
	ComputeCapability string
	// MIG is true if the GPU is in MIG mode, divided into instances: programs that are given
	// the whole GPU can't use more than one of them.
	MIG bool
	// Slices are the MIG devices of a GPU in MIG mode, in the driver's order.
	Slices []Slice
}

// Same reports whether all properties are the same.
func (i Info) Same(other Info) bool { return reflect.DeepEqual(i, other) }

// Usable returns the UUIDs of what programs can be given: the GPU, or else its slices.
func (i *Info) Usable() []string {
	if !i.MIG {
		return []string{i.UUID}
	}
	uuids := make([]string, len(i.Slices))
	for place := range i.Slices {
		uuids[place] = i.Slices[place].UUID
	}
	return uuids
}

// Inventory is what a Source finds when it is opened.
type Inventory struct {
	Driver Driver
	// GPUs are in the order of their indexes.
	GPUs []Info
	// NVLinks[i][j] is the number of active NVLink connections between the GPUs
	// at places i and j of GPUs; through a switch every pair counts the links
	// that both have. It is symmetric with a zero diagonal, or nil without
	// NVLink.
	NVLinks [][]int
	// OnBus is how many GPUs the operating system finds on the PCI bus for this driver; 0 if
	// unknown.
	OnBus int
}

// NVLinkGroups returns for each GPU the group of GPUs that reach each other over
// NVLink, numbered from 0 in the order of their first members, or Unknown for a
// GPU without NVLink.
func (i *Inventory) NVLinkGroups() []int {
	groups := make([]int, len(i.GPUs))
	for gpu := range groups {
		groups[gpu] = Unknown
	}
	next := 0
	for gpu := range groups {
		if groups[gpu] == Unknown && i.markGroup(gpu, next, groups) > 1 {
			next++
		} else if groups[gpu] == next {
			groups[gpu] = Unknown // alone
		}
	}
	return groups
}

// markGroup gives the number to all GPUs that are reachable from one, and returns how many
// they are.
func (i *Inventory) markGroup(start, number int, groups []int) int {
	groups[start] = number
	size := 1
	if start >= len(i.NVLinks) {
		return size
	}
	for peer, links := range i.NVLinks[start] {
		if links > 0 && peer < len(groups) && groups[peer] == Unknown {
			size += i.markGroup(peer, number, groups)
		}
	}
	return size
}
