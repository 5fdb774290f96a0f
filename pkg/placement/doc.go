// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides where GPU work goes: snapshot in, plan out. The
// scheduler, the rescheduler, the command line and the benchmarks share it, so that
// admitting, placing, moving and explaining never disagree. It knows no API server
// and no clock; the same input gives the same output.
//
// # Model
//
// A Cluster has Nodes with CPU, memory, Pod slots and GPUs, and the Pods that run
// there. What is free on a node is its State. States are interned: nodes that have
// the same free, whichever of their equal cards that is on, share one State, and
// what is found out for it (does a request fit, at which price) is found out once.
// Real clusters have few States, because they run few shapes of Pods: 1,100 for
// 100,000 nodes in bench/placement. Work grows with the States, not with the nodes.
//
// What else decides where a Pod may go, labels and taints, is the caller's: a Shape
// has a Selector that looks at the Traits of nodes. It is asked once for all nodes
// that are alike, so that they go on sharing States.
//
// Nodes are in a tree of Domains: the cluster, zones, racks, leaves. Each Domain
// has its own index of nodes by State, which a placement updates along the path to
// the root.
//
// # Decisions
//
//   - Find puts one Pod where a Policy says that it costs the least; package packing
//     has the policy. Ties go to the smallest name: the order is total.
//   - Plan puts a gang, all of it or nothing: into one domain if one suffices, the
//     tightest, else into as few as possible.
//   - Explain says why there is no plan and which smallest changes would give one.
//   - Preempt says which running Pods have to leave so that a gang fits.
//   - Try changes the cluster for a question and undoes it.
//
// Which cards of a node a Pod gets is part of the decision: see choose.go.
package placement
