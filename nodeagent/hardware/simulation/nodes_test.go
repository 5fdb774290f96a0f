// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestParseNodes(t *testing.T) {
	t.Parallel()
	nodes, err := ParseNodes([]byte("[{name: n1}, {name: n2.example.com, model: h100, profile: {count: 2}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 2 || nodes[0].Name != "n1" || *nodes[0].Profile.Count != 8 || *nodes[1].Profile.Count != 2 || nodes[1].Model != "h100" {
		t.Errorf("got %+v", nodes)
	}
	first, second := open(t, &nodes[0].Profile), open(t, &nodes[1].Profile)
	if len(first.GPUs) != 8 || len(second.GPUs) != 2 {
		t.Errorf("%d and %d GPUs", len(first.GPUs), len(second.GPUs))
	}
}

func TestParseNodesRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"an object instead of a list":     {"{name: n1}", "cannot unmarshal object"},
		"a node without a name":           {"[{name: n1}, {profile: {}}]", "nodes[1].name: Required value: the Node's name"},
		"a name that no Node can have":    {"[{name: N_1}]", `nodes[0].name: Invalid value: "N_1"`},
		"a node that is listed twice":     {"[{name: n1}, {name: n1}]", `nodes[1].name: Duplicate value: "n1"`},
		"a model that is no label":        {"[{name: n1, model: RTX 4090}]", `nodes[0].model: Invalid value: "RTX 4090"`},
		"an unknown field":                {"[{name: n1, gpus: 4}]", `unknown field "gpus"`},
		"an unknown field of the profile": {"[{name: n1, profile: {gpus: 4}}]", `unknown field "gpus"`},
		"a mistake in the second profile": {"[{name: n1}, {name: n2, profile: {count: -1}}]", "nodes[1].profile.count: Invalid value: -1"},
		"a mistake in the load":           {"[{name: n1, profile: {load: {period: -1s}}}]", "nodes[0].profile.load.period: Invalid value"},
		"a mistake in the matrix":         {"[{name: n1, profile: {count: 1, nvlink: {matrix: [[1]]}}}]", "nodes[0].profile.nvlink.matrix[0][0]: Invalid value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseNodes([]byte(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestLoadNodesNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	if _, err := LoadNodes(path); err == nil || !strings.Contains(err.Error(), "reading the simulated nodes: open "+path) {
		t.Errorf("without the file: %v", err)
	}
	write(t, path, "[{}]")
	if _, err := LoadNodes(path); err == nil || !strings.Contains(err.Error(), path+": nodes[0].name: Required") {
		t.Errorf("a file with a mistake: %v", err)
	}
	write(t, path, "[{name: n1}]")
	if nodes, err := LoadNodes(path); err != nil || len(nodes) != 1 {
		t.Errorf("got %v, %v", nodes, err)
	}
}

func FuzzParseNodes(f *testing.F) {
	for _, yaml := range []string{"[]", "[{name: n1}, {name: n2, profile: {count: 1, nvlink: null}}]", "[null]", "[{name: n1, profile: {load: {period: null, memory: null}}}]"} {
		f.Add([]byte(yaml))
	}
	f.Fuzz(func(t *testing.T, yaml []byte) {
		nodes, err := ParseNodes(yaml)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for i := range nodes {
			if nodes[i].Name == "" || names[nodes[i].Name] {
				t.Errorf("%q: node %d is called %q", yaml, i, nodes[i].Name)
			}
			names[nodes[i].Name] = true
			checkSource(t, &nodes[i].Profile, 0)
		}
	})
}
