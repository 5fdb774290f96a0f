// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This file links an API server, a scheduler and upstream's benchmark into one
// program. Only "make bench-schedulerperf" compiles it, by naming it; a build tag of our
// own would put the dependencies of upstream's tests into go.mod.
package main

import (
	"fmt"
	"os"
	"testing"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"falldio.github.io/gpu-controller/scheduler/leadership"
	"falldio.github.io/gpu-controller/scheduler/planner"
	"falldio.github.io/gpu-controller/scheduler/plugins/devices"
	"falldio.github.io/gpu-controller/scheduler/plugins/gang"
	"falldio.github.io/gpu-controller/scheduler/plugins/packing"
)

// Environment variables that select what to run.
const (
	schedulerVariable = "SCHEDULERPERF_SCHEDULER" // "ours" adds our plugins
	configVariable    = "SCHEDULERPERF_CONFIG"    // the file with the workloads
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}

func BenchmarkPerfScheduling(b *testing.B) {
	name := os.Getenv(schedulerVariable)
	var registry frameworkruntime.Registry
	if name == "ours" {
		shared := planner.NewShared(leadership.Always(), "bench")
		registry = frameworkruntime.Registry{
			gang.Name:    gang.Factory(shared),
			devices.Name: devices.Factory(shared),
			packing.Name: packing.New,
		}
	}
	perf.RunBenchmarkPerfScheduling(b, os.Getenv(configVariable), name, registry)
}
