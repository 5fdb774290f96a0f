// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream runs the functional workloads of Kubernetes' own scheduler_perf, those
// that Kubernetes uses as integration tests of kube-scheduler, with gpu-scheduler's plugins
// and profiles. Their Pods request no GPU of ours: gpu-scheduler must treat them as
// kube-scheduler does. A workload passes when it has reached every stage that upstream
// waits for, and when what runs at its end fits.
package upstream
