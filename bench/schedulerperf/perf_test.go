// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build schedulerperf

package main

import (
	"testing"

	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

func BenchmarkPerfScheduling(b *testing.B) {
	perf.RunBenchmarkPerfScheduling(b, "", "stock", nil)
}
