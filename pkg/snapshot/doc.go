// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot turns what the API server says of Nodes and Pods into what
// package placement decides on. The scheduler, the rescheduler and the command
// line share it, so that all see the same cluster.
//
// It knows the labels, annotations and resources; it knows no informer and no
// clock.
package snapshot
