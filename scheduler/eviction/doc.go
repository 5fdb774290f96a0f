// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction carries out what was decided about Pods that have to leave their nodes: an Evictor lets them save their work, asks the
// PodDisruptionBudgets and stops them, and a Nominator tells others for whom they leave. It does not choose them.
package eviction
