// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// process is one of the processes and where the chart has it.
type process struct{ key, kind, name string }

func processes() []process {
	return []process{
		{"controller", "Deployment", "gpu-controller"},
		{"scheduler", "Deployment", "gpu-scheduler"},
		{"nodeagent", "DaemonSet", "nodeagent"},
		{"dradriver", "DaemonSet", "dradriver"},
		{"dashboard", "Deployment", "gputask-dashboard"},
	}
}

// flagSchema is what the schema says of a flag.
type flagSchema struct {
	Type    string   `json:"type"`
	Pattern string   `json:"pattern"`
	Enum    []string `json:"enum"`
	Ref     string   `json:"$ref"`
	Minimum *float64 `json:"minimum"`
	Items   struct {
		Type string `json:"type"`
	} `json:"items"`
}

// example returns a value for a flag, and the arguments that the program must get for it.
func (f *flagSchema) example(t *testing.T, name string) (any, []string) {
	t.Helper()
	argument := func(value any) []string { return []string{fmt.Sprintf("--%s=%v", name, value)} }
	switch {
	case len(f.Enum) > 0:
		last := f.Enum[len(f.Enum)-1]
		return last, argument(last)
	case f.Ref != "" || strings.HasSuffix(f.Pattern, ":[0-9]+$"):
		return ":7777", argument(":7777")
	case f.Pattern != "":
		return "90s", argument("90s")
	}
	switch f.Type {
	case "boolean":
		return true, argument(true)
	case "integer":
		if f.Minimum != nil && *f.Minimum == 0 { // a port
			return 7777, argument(7777)
		}
		return 5000000, argument("5000000") // large numbers are printed in full
	case "number":
		return 0.5, argument("0.5")
	case "array":
		if f.Items.Type == "integer" {
			return []int{4, 5}, append(argument(4), argument(5)...)
		}
		return []string{"a=b", "c"}, append(argument("a=b"), argument("c")...)
	case "string":
		return "x: #y", argument("x: #y")
	}
	t.Fatalf("--%s: the schema says nothing that the test knows", name)
	return nil, nil
}

func TestEveryFlagReachesItsProgram(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties map[string]struct {
			Properties struct {
				Flags struct {
					Properties map[string]flagSchema `json:"properties"`
				} `json:"flags"`
			} `json:"properties"`
		} `json:"properties"`
	}
	text, err := os.ReadFile(filepath.Join(chartFolder(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			known := schema.Properties[p.key].Properties.Flags.Properties
			if len(known) < 5 {
				t.Fatalf("the schema has %d flags", len(known))
			}
			flags, want := values{}, []string{}
			for _, name := range slices.Sorted(maps.Keys(known)) {
				flag := known[name]
				value, arguments := flag.example(t, name)
				flags[name] = value
				want = append(want, arguments...)
			}
			objects := mustRender(t, values{p.key: values{"enabled": true, "flags": flags, "extraArgs": []string{"--new-flag=1"}}})
			got := arguments(t, find(t, objects, p.kind, p.name))
			for _, argument := range append(want, "--new-flag=1") {
				if !slices.Contains(got, argument) {
					t.Errorf("%s does not get %s, but %q", p.name, argument, got)
				}
			}
		})
	}
}

// container returns the container of a workload.
func container(t *testing.T, workload *unstructured.Unstructured) map[string]any {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers %v, error %v", containers, err)
	}
	return containers[0].(map[string]any)
}

// arguments returns the arguments of a workload's container.
func arguments(t *testing.T, workload *unstructured.Unstructured) []string {
	t.Helper()
	list, _, err := unstructured.NestedStringSlice(container(t, workload), "args")
	if err != nil {
		t.Fatal(err)
	}
	return list
}
