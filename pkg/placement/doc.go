// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides where GPU work goes: snapshot in, plan out. The
// scheduler, the rescheduler, the command line and the benchmarks share it, so that
// admitting, placing, moving and explaining never disagree. It has no client and no
// clock; the same input gives the same output.
//
// # Model
//
// A Cluster has Nodes with CPU, memory, Pod slots, GPUs and other resources, and the Pods
// that run there. A node's free capacity is its State. States are interned: nodes with equal
// free capacity, whichever of their equal cards it is on, share one State, and results
// for it (whether a request fits, at what price) are computed once. Real clusters have
// few States, because they run few shapes of Pods: 1,100 for 100,000 nodes in
// bench/placement. Work grows with the number of States, not of nodes.
//
// Other constraints, such as labels and taints, are up to the caller: a Shape has a
// Selector that is evaluated on the Traits of nodes, once for all nodes of a kind, so
// that these still share States.
//
// Nodes are in a tree of Domains: the cluster, zones, racks, leaves. Each Domain
// has its own index of nodes by State, which a placement updates along the path to
// the root.
//
// # Decisions
//
// Placing leaves running Pods alone:
//
//   - Find places one Pod where a Policy makes it cheapest; package packing has the
//     policy. Ties go to the smallest name: the order is total. Rank lists all nodes
//     that can take a Pod in that order, Fit returns why a node can't take it.
//   - Plan places a gang, all or nothing: in the tightest domain that suffices, or else
//     in as few as possible.
//   - Explain returns why there is no plan, and the smallest changes that would yield one.
//   - WhatIf predicts when there will be one, given when Pods are expected to end.
//   - Capacity returns how many Pods of a shape would fit.
//
// Making room decides about running Pods:
//
//   - Preempt selects the Pods to evict so that a gang fits.
//   - Consolidate selects the Pods to move, and where to, so that a gang fits.
//   - Pack selects the Pods to move so that whole nodes and GPUs become free.
//   - Carry applies moves, turn by turn.
//
// Try applies changes tentatively and rolls them back. Which cards of a node a Pod gets
// is part of the decision.
//
// # A map of the files
//
// The cluster: cluster.go node.go resources.go (what is free on a node) shape.go amounts.go (resources by name)
// selector.go preference.go named.go (nodes by name) domain.go hide.go (nodes that are out of all domains for a while),
// and what makes it fast: state.go (free capacity), kind.go (what nodes have in common), slack.go (small differences
// between nodes), offer.go (cached fit and price of a request on a State), intern.go (requests, each once), journal.go
// (Try), observe.go (who follows the changes).
//
// Placing: place.go rank.go (one Pod), gang.go plan.go topology.go (gangs), backtrack.go checker.go (where others
// decide, too), fit.go (reasons), choose.go numa.go (cards), policy.go (prices); explain.go absent.go remedy.go
// shortage.go departures.go emptied.go (explanations), whatif.go, capacity.go, running.go.
//
// Making room: preempt*.go; consolidate*.go; repack*.go (Pack); moves*.go, which the last
// two share. They are in this package because a single call tries thousands of changes
// in place, on a Cluster's States and indexes: see "Decisions" in docs/architecture.md.
package placement
