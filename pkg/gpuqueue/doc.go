// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpuqueue translates GPUQueues and Pods into the terms of package queueing. All that
// decide about queues translate them in the same way.
package gpuqueue
