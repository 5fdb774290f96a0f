// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packing is the policy that keeps nodes useful for the requests that arrive.
//
// Every State of a node has a potential, in GPUs: what the cluster loses by the node
// being in this State. A placement costs the difference that it makes:
//
//		price = potential(after) - potential(before) + extras
//		potential = - Earnings·earnings + Stranding·stranded - Worth·Σ worth(rest of a card)
//
//	  - earnings: how many of its GPUs the node can still fill, on average over
//	    futures drawn from the mix of requests. It is the counterpart of the expected
//	    fragmentation of FGD (Weng et al., "Beware of Fragmentation", USENIX ATC '23),
//	    but lets several requests share the node.
//	  - stranded: free GPUs without the CPU that GPUs usually need.
//	  - worth: what the rest of a card can serve, the dual price of filling cards with
//	    patterns of shares (Gilmore and Gomory's cutting stock problem). The last 19
//	    percent of a card are useless if no request is that small.
//
// The extras: models that others depend on cost more (scarcity), untouched nodes
// are kept for requests of whole nodes (reserve), and among otherwise equal places the
// tighter one is taken (CPUFit, ShareFit, NodeFit).
//
// Two more extras count as far as Pods are known to end (turnover), and nothing in a cluster that
// only fills up. Both follow what is free at the moment:
//
//   - vacating: while too few untouched nodes are left, GPUs of emptier nodes cost more, so that
//     what ends empties nodes, and what comes does not fill them again.
//   - dependence: while too few GPUs are left on nodes that some requests depend on, for their
//     model, their labels or their size, these cost more.
//
// All of this is learned online from the requests that have arrived, the Mix, without
// any knowledge of the future. docs/benchmarks.md has the contribution of each term.
package packing
