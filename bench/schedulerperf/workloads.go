// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
)

// The schedulers.
const (
	stock = "stock"
	ours  = "ours"
)

var schedulers = []string{stock, ours}

// workload is one of upstream's test cases with sizes of our own.
type workload struct {
	name   string
	params map[string]int
}

var workloads = []workload{
	{"SchedulingBasic", map[string]int{"initNodes": 500, "initPods": 500, "measurePods": 2000}},
	{"SchedulingWithMixedChurn", map[string]int{"initNodes": 500, "measurePods": 2000}},
	{"Unschedulable", map[string]int{"initNodes": 500, "initPods": 10, "measurePods": 2000}},
	{"SchedulingWhileGated", map[string]int{"gatedPods": 1000, "deletingPods": 1000, "measurePods": 2000}},
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

// testCase returns a file for scheduler_perf with one of upstream's test cases, in our
// size. The files that it refers to are in a folder of upstream's. config is the path of
// the scheduler's configuration, empty for the default.
func (w *workload) testCase(upstream []byte, folder, config string) ([]byte, error) {
	var cases []map[string]any
	if err := yaml.Unmarshal(upstream, &cases); err != nil {
		return nil, err
	}
	for _, c := range cases {
		if c["name"] != w.name {
			continue
		}
		c["workloads"] = []any{map[string]any{"name": "x", "labels": []any{"performance"}, "params": w.params}}
		if config != "" {
			c["schedulerConfigPath"] = config
			// As localcluster runs gpu-scheduler.
			c["featureGates"] = map[string]any{"NominatedNodeNameForExpectation": false}
		}
		return yaml.Marshal([]any{withPaths(c, folder)})
	}
	return nil, fmt.Errorf("upstream has no test case %q", w.name)
}

// withPaths makes all paths in a value absolute.
func withPaths(value any, folder string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = withPaths(value[key], folder)
		}
	case []any:
		for i := range value {
			value[i] = withPaths(value[i], folder)
		}
	case string:
		if strings.HasPrefix(value, "../") {
			return filepath.Join(folder, value)
		}
	}
	return value
}

// schedulerConfig returns our configuration with its first profile applied to Pods that
// do not name a scheduler.
func schedulerConfig() ([]byte, error) {
	text, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	profiles, _ := config["profiles"].([]any)
	if len(profiles) == 0 {
		return nil, errors.New(artifacts.SchedulerConfig + ": there is no profile")
	}
	first, isObject := profiles[0].(map[string]any)
	if !isObject {
		return nil, errors.New(artifacts.SchedulerConfig + ": profiles[0] is no object")
	}
	first["schedulerName"] = "default-scheduler"
	config["profiles"] = []any{first}
	return yaml.Marshal(config)
}
