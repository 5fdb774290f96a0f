// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package baselines has the policies that the trace was published with, to
// compare ours with: FGD, BestFit, DotProd and Random, as their paper ("Beware of
// Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
// Descent", USENIX ATC 2023) and its simulator define them.
//
// They score every node that a Pod fits on with an integer from 0 to 100. The
// highest score wins, and ties go to the smallest name or to a random node.
package baselines
