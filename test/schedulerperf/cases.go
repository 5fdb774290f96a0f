// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// casesFile has the test cases of a folder of upstream's.
const casesFile = "performance-config.yaml"

// Folder returns the folder of scheduler_perf in the source of Kubernetes that go.mod names.
func Folder(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-find", "-f", "{{.Module.Dir}}", "k8s.io/kubernetes/cmd/kube-scheduler/app").Output()
	if err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(string(output)), "test", "integration", "scheduler_perf"), nil
}

// Topics returns the folders with test cases inside upstream's folder, for example
// "dra/devicetaints".
func Topics(folder string) ([]string, error) {
	var topics []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != casesFile {
			return err
		}
		topic, err := filepath.Rel(folder, filepath.Dir(path))
		topics = append(topics, filepath.ToSlash(topic))
		return err
	})
	if err == nil && len(topics) == 0 {
		err = errors.New(folder + ": there are no test cases")
	}
	return topics, err
}

// Case is a test case of upstream's, as in its file.
type Case map[string]any

// Cases reads the test cases of a topic.
func Cases(folder, topic string) ([]Case, error) {
	text, err := os.ReadFile(filepath.Join(folder, topic, casesFile)) //nolint:gosec // the caller names the folder
	if err != nil {
		return nil, err
	}
	var cases []Case
	return cases, yaml.Unmarshal(text, &cases)
}

// Name returns the name of the test case.
func (c Case) Name() string { return text(c["name"]) }

// Does tells whether the test case has an operation, for example "churn".
func (c Case) Does(operation string) bool {
	return slices.ContainsFunc(objects(c["workloadTemplate"]), func(op map[string]any) bool { return op["opcode"] == operation })
}

// Workloads returns the names of the workloads that have a label and do not have another.
// A workload has the labels of its test case, too.
func (c Case) Workloads(label, without string) []string {
	var names []string
	for _, workload := range objects(c["workloads"]) {
		labels := append(texts(c["labels"]), texts(workload["labels"])...)
		if slices.Contains(labels, label) && !slices.Contains(labels, without) {
			names = append(names, text(workload["name"]))
		}
	}
	return names
}

// Only returns the test case with only one of its workloads.
func (c Case) Only(workload string) Case {
	only := c.copied()
	for _, one := range objects(c["workloads"]) {
		if one["name"] == workload {
			only["workloads"] = []any{one}
		}
	}
	return only
}

// WithParams returns the test case with a single workload of our own.
func (c Case) WithParams(params map[string]int) Case {
	changed := c.copied()
	changed["workloads"] = []any{map[string]any{"name": "x", "params": params}}
	return changed
}

// Changed returns the test case with other parameters of its workloads.
func (c Case) Changed(params map[string]int) Case {
	changed, workloads := c.copied(), []any{}
	for _, one := range objects(c["workloads"]) {
		old, _ := one["params"].(map[string]any)
		merged := maps.Clone(old)
		for name, value := range params {
			merged[name] = value
		}
		workload := maps.Clone(one)
		workload["params"] = merged
		workloads = append(workloads, workload)
	}
	changed["workloads"] = workloads
	return changed
}

// WithGate returns the test case with a feature gate in a state, unless the test case or a
// workload of its sets it.
func (c Case) WithGate(gate string, state bool) Case {
	for _, owner := range append(objects(c["workloads"]), c) {
		if gates, _ := owner["featureGates"].(map[string]any); gates[gate] != nil {
			return c
		}
	}
	changed, gates := c.copied(), map[string]any{gate: state}
	if old, isObject := c["featureGates"].(map[string]any); isObject {
		maps.Copy(gates, old)
	}
	changed["featureGates"] = gates
	return changed
}

func (c Case) copied() Case { return maps.Clone(c) }

func text(value any) string {
	is, _ := value.(string)
	return is
}

func texts(list any) []string {
	items, _ := list.([]any)
	found := make([]string, 0, len(items))
	for _, item := range items {
		found = append(found, text(item))
	}
	return found
}
