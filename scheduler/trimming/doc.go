// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trimming makes the Pods and Nodes that the scheduler caches small. Of a Pod's
// spec, the commands, environments, probes and mounts of containers matter to the kubelet
// only, and many Pods have equal requests. Without them, 100,000 Pods need about half of
// the memory.
//
// It also empties what creators of Pods have written about the GPUs that these have: only Bindings may.
package trimming
