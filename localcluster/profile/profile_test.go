// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const version = "v1.37.1"

func TestDefaultProfileIsTheDocumentedCluster(t *testing.T) {
	profile, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ Name, GPUs, Pool, Leaf string }
	var got []row
	for _, node := range profile.Nodes(version) {
		got = append(got, row{
			node.Name, quantityOf(node, v1.ResourceGPU), node.Labels[v1.LabelNodePool], node.Labels[v1.LabelLeaf],
		})
	}
	want := []row{
		{"h100-0", "8", "training", "leaf-0"},
		{"h100-1", "8", "training", "leaf-0"},
		{"h100-2", "8", "training", "leaf-1"},
		{"h100-3", "8", "training", "leaf-1"},
		{"rtx4090-0", "2", "research", ""},
		{"rtx4090-1", "2", "research", ""},
		{"a100-0", "4", "", ""},
		{"mig-0", "0", "", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestNodesAreCompleteAndDeterministic(t *testing.T) {
	profile, err := parse("test", []byte(`
nodeGroups:
- {name: gpu, count: 1, model: a100-40gb, gpusPerNode: 4, cpu: 64, memory: 1Ti, pool: p, nodesPerLeaf: 1, labels: {rack: r1}, taints: [{key: falldio.com/gpu, effect: NoSchedule}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	first, second := profile.Nodes(version), profile.Nodes(version)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two calls differ:\n%s", diff)
	}
	node := first[0]
	wantLabels := map[string]string{
		"kubernetes.io/hostname": "gpu-0", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"type": "kwok", "rack": "r1",
		"falldio.com/node-pool": "p", "falldio.com/leaf": "leaf-0",
	}
	if diff := cmp.Diff(wantLabels, node.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantResources := corev1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("1Ti"),
		"pods": resource.MustParse("110"), "falldio.com/gpu": resource.MustParse("4"), "falldio.com/gpu-percent": resource.MustParse("400"),
	}
	if diff := cmp.Diff(wantResources, node.Status.Allocatable); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "falldio.com/gpu", Effect: "NoSchedule"}}, node.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if got := node.Annotations["kwok.x-k8s.io/node"]; got != "fake" {
		t.Errorf("KWOK's annotation is %q", got)
	}
}

func TestLeavesAreNumberedOverTheWholeProfile(t *testing.T) {
	profile, err := Select("", []string{"name=a,count=3,nodes-per-leaf=2", "name=b,count=2,nodes-per-leaf=2", "name=c"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, node := range profile.Nodes(version) {
		got = append(got, node.Labels[v1.LabelLeaf])
	}
	if diff := cmp.Diff([]string{"leaf-0", "leaf-0", "leaf-1", "leaf-2", "leaf-2", ""}, got); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ yaml, want string }{
		"an empty profile":              {"nodeGroups: []", "nodeGroups: Required"},
		"an unknown field":              {"nodeGroups: [{name: a, count: 1, gpu: x}]", `unknown field "gpu"`},
		"a group without a name":        {"nodeGroups: [{count: 1}]", "nodeGroups[0].name: Required"},
		"a name that no node can have":  {"nodeGroups: [{name: A_b, count: 1}]", "nodeGroups[0].name: Invalid"},
		"a very long name":              {"nodeGroups: [{name: " + strings.Repeat("a", 51) + ", count: 1}]", "nodeGroups[0].name: Too long"},
		"two groups of the same name":   {"nodeGroups: [{name: a, count: 1}, {name: a, count: 1}]", "nodeGroups[1].name: Duplicate"},
		"a group without nodes":         {"nodeGroups: [{name: a}]", "nodeGroups[0].count: Invalid value: 0: must be from 1"},
		"GPUs without a model":          {"nodeGroups: [{name: a, count: 1, gpusPerNode: 2}]", "nodeGroups[0].model: Required"},
		"a model without GPUs":          {"nodeGroups: [{name: a, count: 1, model: rtx4090}]", "nodeGroups[0].gpusPerNode: Required"},
		"a model that tells no memory":  {"nodeGroups: [{name: a, count: 1, model: rtx4090, gpusPerNode: 1}]", "or gpu-memory=24564Mi in --nodes"},
		"a model that is no label":      {"nodeGroups: [{name: a, count: 1, model: RTX 4090, gpusPerNode: 1, gpuMemory: 1Gi}]", "nodeGroups[0].model: Invalid"},
		"a quantity without sense":      {"nodeGroups: [{name: a, count: 1, cpu: many}]", `nodeGroups[0].cpu: Invalid value: "many": must be a quantity`},
		"a negative quantity":           {"nodeGroups: [{name: a, count: 1, memory: -1Gi}]", "nodeGroups[0].memory: Invalid"},
		"a label that follows the rest": {"nodeGroups: [{name: a, count: 1, labels: {falldio.com/leaf: x}}]", "nodeGroups[0].labels[falldio.com/leaf]: Forbidden"},
		"a label's impossible value":    {"nodeGroups: [{name: a, count: 1, labels: {x: a b}}]", "nodeGroups[0].labels: Invalid"},
		"a taint without an effect":     {"nodeGroups: [{name: a, count: 1, taints: [{key: x}]}]", "nodeGroups[0].taints[0].effect: Unsupported"},
		"more divided GPUs than any":    {"nodeGroups: [{name: a, count: 1, mig: [{slices: [1g.5gb]}]}]", "nodeGroups[0].mig[0].gpus: Invalid value: 0: 0 GPUs of the node are left to be divided"},
		"slices that do not fit":        {"nodeGroups: [{name: a, count: 1, model: a100-40gb, gpusPerNode: 1, mig: [{slices: [1g.5gb, 7g.40gb]}]}]", `nodeGroups[0].mig[0].slices: Invalid value: "1g.5gb, 7g.40gb": they have 8 compute slices`},
		"divided GPUs without slices":   {"nodeGroups: [{name: a, count: 1, model: a100-40gb, gpusPerNode: 1, mig: [{gpus: 1}]}]", "nodeGroups[0].mig[0].slices: Required"},
		"a label that the agent writes": {"nodeGroups: [{name: a, count: 1, labels: {falldio.com/mig-strategy: single}}]", "nodeGroups[0].labels[falldio.com/mig-strategy]: Forbidden"},
		"a taint without a key":         {"nodeGroups: [{name: a, count: 1, taints: [{effect: NoSchedule}]}]", "nodeGroups[0].taints[0].key: Invalid"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse("file.yaml", []byte(test.yaml))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestSelectAddsQuickGroupsToTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(path, []byte("nodeGroups: [{name: a, count: 1}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	profile, err := Select(path, []string{"name=b"})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(profile.NodeGroups); got != 2 {
		t.Errorf("got %d groups, want 2", got)
	}
}

func TestParseQuick(t *testing.T) {
	got, err := ParseQuick("model=h100-80gb-hbm3,count=100, gpus=8,pool=training,nodes-per-leaf=16")
	if err != nil {
		t.Fatal(err)
	}
	want := NodeGroup{Name: "h100-80gb-hbm3", Model: "h100-80gb-hbm3", Count: 100, GPUsPerNode: 8, Pool: "training", NodesPerLeaf: 16}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
}

func TestParseQuickRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"an empty line":             {"", "expected key=value"},
		"a word without a value":    {"model", "expected key=value"},
		"an unknown key":            {"modell=x", "modell=x: unknown key: expected one of count, cpu"},
		"a key given twice":         {"count=1,count=2", "count is given twice"},
		"a count that is no number": {"count=ten", "count=ten: expected a whole number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseQuick(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func quantityOf(node *corev1.Node, name corev1.ResourceName) string {
	quantity := node.Status.Capacity[name]
	return quantity.String()
}

func TestAgentsAreThoseOfTheNodesWithGPUs(t *testing.T) {
	profile, err := Select("", []string{"name=a,model=a100-40gb,count=2,gpus=4,nvlink-group=2", "name=cpu"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.Agents()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, name := range []string{"a-0", "a-1"} {
		want.WriteString("- model: a100-40gb\n  name: " + name + "\n  profile:\n    count: 4\n    memory: 40960Mi\n    nvlink:\n      groupSize: 2\n    product: a100-40gb\n")
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("the agents' nodes (-want +got):\n%s", diff)
	}
	if !profile.HasGPUs() {
		t.Error("no node is said to have GPUs")
	}
}

// divided is the profile of docs/localcluster.md, with one node.
const divided = `
nodeGroups:
- name: h100
  count: 1
  model: h100-80gb-hbm3
  gpusPerNode: 4
  gpuMemory: 81559Mi
  mig:
  - {gpus: 2, slices: [3g.40gb, 2g.20gb, 1g.10gb, 1g.10gb]}
  - {gpus: 1, slices: [7g.80gb]}
`

func TestDividedGPUsAreOfferedInSlices(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want map[corev1.ResourceName]string
	}{
		"some GPUs": {divided, map[corev1.ResourceName]string{
			"falldio.com/gpu": "1", "falldio.com/gpu-percent": "100",
			"falldio.com/mig-1g.10gb": "4", "falldio.com/mig-2g.20gb": "2", "falldio.com/mig-3g.40gb": "2", "falldio.com/mig-7g.80gb": "1",
		}},
		"all GPUs": {"nodeGroups: [{name: a, count: 1, model: a100-40gb, gpusPerNode: 3, mig: [{slices: [1g.5gb, 1g.5gb+me]}]}]", map[corev1.ResourceName]string{
			"falldio.com/mig-1g.5gb": "3", "falldio.com/mig-1g.5gb.me": "3",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile, err := parse("file.yaml", []byte(test.yaml))
			if err != nil {
				t.Fatal(err)
			}
			got := map[corev1.ResourceName]string{}
			node := profile.Nodes("v1.37.1")[0]
			for resource := range node.Status.Capacity {
				if strings.HasPrefix(string(resource), "falldio.com/") {
					got[resource] = quantityOf(node, resource)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentsDivideTheGPUs(t *testing.T) {
	t.Parallel()
	profile, err := parse("file.yaml", []byte(divided))
	if err != nil {
		t.Fatal(err)
	}
	got, err := profile.Agents()
	if err != nil {
		t.Fatal(err)
	}
	want := `
    mig:
    - gpus: 2
      slices:
      - 3g.40gb
      - 2g.20gb
      - 1g.10gb
      - 1g.10gb
    - gpus: 1
      slices:
      - 7g.80gb
`
	if !strings.Contains(string(got), want) {
		t.Errorf("the agents' nodes lack %s:\n%s", want, got)
	}
}
