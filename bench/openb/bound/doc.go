// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bound finds how much of a cluster's GPUs no placement can exceed, even
// one that knows all Pods that will come.
//
// Nodes with the same capacity are one class, and what a class has of CPU, memory
// and cards is one sum: that only adds freedom. What remains exact is the card: a
// column of the linear program is a pattern of shares that fit on one card
// together, or a Pod with whole cards, or one without. Rows limit the cards, CPU
// and memory of each class and the Pods of each shape. There are too many
// patterns to list, so they are generated (Gilmore and Gomory, 1961): prices of
// the rows make a knapsack of each card, and the best filling is the next column.
//
// The prices come from an interior-point method (Mehrotra, 1992). What is
// returned does not rest on how exact they are: any prices give a bound, by
// Lagrange, which is evaluated with the exact knapsack.
package bound
