// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal is the format of the scheduler's decision journal, and what can be done with one:
// read it, look at the cluster right before a decision, and run the recorded decisions through the
// engine again.
//
// # Format
//
// A journal is lines of JSON, each an object with one field that says what it is:
//
//   - checkpoint begins a segment: as many lines with a node, and then with a pod, follow as it says.
//     Together they are the whole cluster of the engine, and what its policy has learned. Therefore a
//     segment can be read without those before it.
//   - node, gone, pod, left and learned are changes: a node was set or removed, a Pod was placed or
//     removed, a request was counted as demand. The number n counts them, so that a missing one is
//     noticed.
//   - decision is a decision. It says after which change it was made, as changes of other goroutines
//     may have been written between a decision and its line, and which digest the cluster had.
//
// A decision has the questions that the scheduler asked the engine, with all that they depended on: what
// was tried meanwhile, as if reservations that don't concern the gang were gone, and what
// kube-scheduler's filters refused. Asking the same questions in the same cluster gives the same
// answers; asking another policy shows where it would have decided differently.
//
// The last line of a segment may be torn: the scheduler may have been killed while it wrote.
package journal
