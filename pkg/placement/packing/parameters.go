// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

// Parameters weigh the terms of the price. All weights are in GPUs.
type Parameters struct {
	// Earnings weighs what a node can still earn, Stranding its GPUs without CPU, and
	// Worth the rests of its cards.
	Earnings, Stranding, Worth float64
	// Scarcity weighs, for each GPU, how much others depend on its model; Rarity is the
	// part of that which every rare model gets.
	Scarcity, Rarity float64
	// Reserve is the price of an untouched node for requests that do not need a whole
	// one, if no more such nodes are left than will be needed.
	Reserve float64
	// Vacating is the price of an empty node for requests that do not need a whole one, which they pay
	// as they fill it, and Dependence the price of a GPU on nodes that others depend on: each if less
	// is left than will be needed, and as far as Pods are known to end.
	Vacating, Dependence float64
	// CPUFit makes Pods without GPUs go where the least CPU is left, ShareFit
	// shares where the least of the card is left.
	CPUFit, ShareFit float64
	// DeviceFit makes Pods without GPUs, but with other devices, go where the fewest of these are
	// left: for each of them. The CPU then counts for less than one device.
	DeviceFit float64
	// NodeFit makes Pods go where the fewest GPUs are left.
	NodeFit float64
	// Tightness is the CPU that a free GPU needs, as a fraction of the average CPU per
	// GPU.
	Tightness float64
	// Smoothing is the range of CPU over which stranding sets in, in units of the average
	// CPU per GPU.
	Smoothing float64
	// HalfLife is the number of further requests after which the weight of a request
	// halves; 0 is never.
	HalfLife float64
}

// Default returns the parameters that performed well on the traces of docs/benchmarks.md.
func Default() Parameters {
	return Parameters{
		Earnings: 0.8, Stranding: 1.9, Worth: 12, Scarcity: 1.8, Rarity: 0.3, Reserve: 2.5, Vacating: 8, Dependence: 6, CPUFit: 1, ShareFit: 0.02, DeviceFit: 0.2, NodeFit: 0.01,
		Tightness: 0.33, Smoothing: 0.45, HalfLife: 1e5,
	}
}
