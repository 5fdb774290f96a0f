// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzProfile reads any YAML as a profile, and any text as a group in short. What is accepted
// describes nodes within the bounds, with names of their own, and survives being written.
func FuzzProfile(f *testing.F) {
	f.Add(defaultYAML, "model=h100-80gb-hbm3,count=100,gpus=8")
	f.Add([]byte("nodeGroups:\n- {name: a, count: 3, model: a100-40gb, gpusPerNode: 2, nodesPerLeaf: 2, mig: [{gpus: 1, slices: [1g.5gb, 3g.20gb]}], taints: [{key: a, effect: NoSchedule}]}\n"), "name=a,cpu=1e3,memory=9E,gpus=0")
	f.Add([]byte("nodeGroups: [{name: a, count: 1, cpu: 1e999, pods: 1}]\n"), "count=-1,,")
	f.Add([]byte("a: &a [x]\nnodeGroups: &b [*a, *b]\n"), "gpus=99999999999999999999")
	f.Fuzz(func(t *testing.T, text []byte, quick string) {
		// A few bytes can ask for 10,000 nodes.
		limits := fuzzlimit.Limits{Bytes: 256 << 20, PerByte: 64 << 20, CPU: 30 * time.Second}
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { _, _ = parse("any", text) })
		fuzzlimit.Check(t, limits, len(text)+len(quick), func() {
			if profile, err := parse("any", text); err == nil {
				checkProfile(t, profile)
			}
			if group, err := ParseQuick(quick); err == nil {
				if profile, err := complete("any", &Profile{NodeGroups: []NodeGroup{group}}); err == nil {
					checkProfile(t, profile)
				}
			}
		})
	})
}

func checkProfile(t *testing.T, profile *Profile) {
	t.Helper()
	written, err := yaml.Marshal(profile)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse("again", written)
	if diff := cmp.Diff(profile, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("written and read again, error %v (-first +second):\n%s", err, diff)
	}
	if profile.Count() > 1000 {
		return // it takes too long for each of many inputs
	}
	names := map[string]bool{}
	for _, node := range profile.Nodes("v1") {
		if names[node.Name] {
			t.Errorf("two nodes have the name %s", node.Name)
		}
		names[node.Name] = true
		for name, amount := range node.Status.Capacity {
			if amount.Sign() < 0 {
				t.Errorf("node %s has %s of %s", node.Name, amount.String(), name)
			}
		}
	}
	if len(names) != profile.Count() {
		t.Errorf("%d nodes, %d are counted", len(names), profile.Count())
	}
}
