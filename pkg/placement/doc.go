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
// Placing changes nothing that runs:
//
//   - Find puts one Pod where a Policy says that it costs the least; package packing
//     has the policy. Ties go to the smallest name: the order is total. Rank has all
//     nodes for a Pod in that order, Fit says why one of them can't take it.
//   - Plan puts a gang, all of it or nothing: into one domain if one suffices, the
//     tightest, else into as few as possible.
//   - Explain says why there is no plan and which smallest changes would give one.
//   - WhatIf says when there will be one, as Pods come to their ends.
//   - Capacity says how many Pods of a shape would fit.
//
// Making room decides on Pods that run:
//
//   - Preempt says which of them have to leave so that a gang fits.
//   - Consolidate says which have to move, and where to, so that a gang fits.
//   - Pack says which have to move so that whole nodes and GPUs are given back.
//   - Carry carries moves out, turn by turn.
//
// Try changes the cluster for a question and undoes it. Which cards of a node a Pod
// gets is part of the decision.
//
// # A map of the files
//
// The cluster: cluster.go node.go shape.go selector.go domain.go, and what makes it
// fast: state.go (what is free), kind.go (what nodes have in common), offer.go (what a
// State has for a request), journal.go (Try).
//
// Placing: place.go rank.go (one Pod), gang.go plan.go topology.go (gangs), fit.go
// (reasons), choose.go numa.go (cards), policy.go (prices), except.go (nodes that are
// out for now); explain.go remedy.go shortage.go (explanations), whatif.go, capacity.go,
// running.go.
//
// Making room: preempt*.go; consolidate*.go; repack*.go (Pack); moves*.go, which these
// two share. They stand in this package since they try changes on a Cluster's States and
// indexes in place, thousands of them for one question.
package placement
