// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

// Parameters weigh the terms of the price. All weights are in GPUs.
type Parameters struct {
	// Earnings weighs what a node can still earn, Stranding its GPUs without
	// CPU, and Worth the rests of its cards.
	Earnings, Stranding, Worth float64
	// Scarcity weighs, for each GPU, how much others depend on its model; Rarity
	// is the part of that which any rare model has.
	Scarcity, Rarity float64
	// Reserve is the price of an untouched node for those who need no whole one,
	// when there are no more of them than will be needed.
	Reserve float64
	// CPUFit makes Pods without GPUs go where the least CPU is left, ShareFit
	// shares where the least of the card is left.
	CPUFit, ShareFit float64
	// NodeFit makes Pods go where the fewest GPUs are left.
	NodeFit float64
	// Tightness is how much of the average CPU per GPU a free GPU needs beside
	// it, as a part of 1.
	Tightness float64
	// Smoothing is over how much CPU stranding sets in, in the average CPU of
	// one GPU.
	Smoothing float64
	// HalfLife is after how many further requests a request counts half; 0 for
	// never.
	HalfLife float64
}

// Default returns the parameters that were found good on the traces of
// docs/benchmarks.md.
func Default() Parameters {
	return Parameters{
		Earnings: 0.8, Stranding: 1.9, Worth: 12, Scarcity: 1.8, Rarity: 0.3, Reserve: 2.5, CPUFit: 1, ShareFit: 0.02, NodeFit: 0.01,
		Tightness: 0.33, Smoothing: 0.45, HalfLife: 1e5,
	}
}
