// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror keeps the placement engine's cluster equal to the snapshot that
// kube-scheduler takes at the beginning of each scheduling cycle, plus the seats
// of plans whose Pods have not been assumed yet: the ledger.
//
// Following the snapshot costs a comparison of two integers for each node, and
// work only for nodes that have changed.
package mirror
