// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulerperf runs workloads of Kubernetes' own scheduler_perf with our build of
// the scheduler or with the stock one, for tests and benchmarks. program_test.go is the
// program that does it; "make build-schedulerperf" compiles it.
package schedulerperf
