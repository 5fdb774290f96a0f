// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction carries out what was decided about Pods that have to leave their nodes: an Evictor lets them save
// their work, asks the PodDisruptionBudgets, stops them, and nominates the Pods that they leave for. It does not choose
// them, but says which ones kube-scheduler's own preemption may.
package eviction
