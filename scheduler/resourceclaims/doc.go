// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaims knows which GPUs resource claims hold, follows the claims and devices of the cluster, and has
// the gangs that wait for them tried again. A driver for dynamic resource
// allocation (DRA) publishes the GPUs of its nodes as devices of ResourceSlices, and
// kube-scheduler allocates them to ResourceClaims, whatever the node agent has given out. A
// device is a GPU that the node agent lists if one of its attributes says so: "uuid", or
// "parentUUID" of a part of a GPU.
package resourceclaims
