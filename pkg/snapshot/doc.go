// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot converts Nodes and Pods of the API to the input of package placement.
// The scheduler, the rescheduler and the command line share it, so that all see the same
// cluster.
//
// It reads labels, annotations and resources; it uses no informer and no clock.
package snapshot
