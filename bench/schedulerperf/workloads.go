// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"falldio.github.io/gpu-controller/test/schedulerperf"
)

var schedulers = []string{schedulerperf.Stock, schedulerperf.Ours}

// workload is one of upstream's test cases with sizes of our own.
type workload struct {
	// topic is upstream's folder with the test case.
	topic, name string
	params      map[string]int
}

var workloads = []workload{
	{"misc", "SchedulingBasic", map[string]int{"initNodes": 500, "initPods": 500, "measurePods": 2000}},
	{"misc", "SchedulingWithMixedChurn", map[string]int{"initNodes": 500, "measurePods": 2000}},
	{"default_preemption", "Unschedulable", map[string]int{"initNodes": 500, "initPods": 10, "measurePods": 2000}},
	{"misc", "SchedulingWhileGated", map[string]int{"gatedPods": 1000, "deletingPods": 1000, "measurePods": 2000}},
}

func workloadNames() []string {
	names := make([]string, len(workloads))
	for i := range workloads {
		names[i] = workloads[i].name
	}
	return names
}

func workloadNamed(name string) *workload {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i]
		}
	}
	return nil
}

// sized returns one of upstream's test cases in our size.
func (w *workload) sized(cases []schedulerperf.Case) (schedulerperf.Case, error) {
	for _, c := range cases {
		if c.Name() == w.name {
			return c.WithParams(w.params), nil
		}
	}
	return nil, fmt.Errorf("upstream has no test case %q", w.name)
}
