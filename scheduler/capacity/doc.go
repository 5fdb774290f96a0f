// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity measures how much of the cluster gangs can use, for gpu-scheduler's gauges: by Nodes and Pods as the
// informers show them, since the mirror is only as recent as the last scheduling cycle.
package capacity
