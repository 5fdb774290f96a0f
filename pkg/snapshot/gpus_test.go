// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// alsoOffering adds a resource to those that a node offers.
func alsoOffering(name corev1.ResourceName, amount string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[name] = resource.MustParse(amount) }
}

// fitOn returns why a Pod does not fit on a node with some Pods, or that it fits.
func fitOn(t *testing.T, n *corev1.Node, waits *corev1.Pod, runs ...*corev1.Pod) string {
	t.Helper()
	shape, err := Shape(waits)
	if err != nil {
		t.Fatal(err)
	}
	view := NodeView{}
	view.Track(&shape)
	cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{n}, runs)
	if len(cluster.Problems) > 0 {
		t.Fatal(cluster.Problems)
	}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}
	if _, fits, err := cluster.Plan(gang); err != nil || fits {
		return "it fits"
	}
	explanation, err := cluster.Explain(gang)
	if err != nil {
		t.Fatal(err)
	}
	return explanation.Refusals[0].String()
}

func TestPodsGoWhereTheirGPUsAreOfferedByTheirName(t *testing.T) {
	t.Parallel()
	theirs, both := offering(v1.ResourceNVIDIAGPU, "2"), alsoOffering(v1.ResourceNVIDIAGPU, "2")
	unlisted := offering(v1.ResourceNVIDIAGPU, "0")
	const fits = "it fits"
	tests := map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		runs []*corev1.Pod
		want string
	}{
		"NVIDIA's name, on a node of NVIDIA's plugin":     {node(theirs), pod("nvidia.com/gpu=2"), nil, fits},
		"NVIDIA's name, on a node that offers both":       {node(both), pod("nvidia.com/gpu=2"), nil, fits},
		"NVIDIA's name, on a node of our plugin":          {node(), pod("nvidia.com/gpu=2"), nil, "does not offer nvidia.com/gpu"},
		"NVIDIA's name, on a node without GPUs":           {node(unlisted), pod("nvidia.com/gpu=1"), nil, "does not offer nvidia.com/gpu"},
		"our name, on a node of NVIDIA's plugin":          {node(theirs), pod("gpu=2"), nil, "does not offer falldio.com/gpu"},
		"our name, on a node that offers both":            {node(both), pod("gpu=2"), nil, fits},
		"our name, on a node without GPUs":                {node(unlisted), pod("gpu=1"), nil, "has too few GPUs"},
		"a share, on a node of NVIDIA's plugin":           {node(theirs), pod("percent=30"), nil, "does not offer falldio.com/gpu-percent"},
		"a share, on a node that offers both":             {node(both, alsoOffering(v1.ResourceGPUPercent, "200")), pod("percent=30"), nil, fits},
		"no GPU, on a node of NVIDIA's plugin":            {node(theirs), pod("cpu=1"), nil, fits},
		"more than the node has":                          {node(theirs), pod("nvidia.com/gpu=3"), nil, "has too few GPUs"},
		"both offers are the same cards":                  {node(both), pod("gpu=3"), nil, "has too few GPUs"},
		"the cards of NVIDIA's plugin are in use":         {node(theirs), pod("nvidia.com/gpu=2"), []*corev1.Pod{running("a", pod("nvidia.com/gpu=1"), "")}, "has too few free GPUs"},
		"a card is in use by another name":                {node(both), pod("gpu=2"), []*corev1.Pod{running("a", pod("nvidia.com/gpu=1"), "")}, "has too few free GPUs"},
		"the last card, beside one by another name":       {node(both), pod("nvidia.com/gpu=1"), []*corev1.Pod{running("a", pod("gpu=1"), "")}, fits},
		"a Pod that has cards by both names":              {node(both), pod("gpu=1"), []*corev1.Pod{running("a", pod("gpu=1,nvidia.com/gpu=1"), "")}, "has too few free GPUs"},
		"cards that our agent lists, of NVIDIA's plugin":  {node(listing(threeCards), theirs), pod("nvidia.com/gpu=2"), nil, fits},
		"one of them is broken":                           {node(listing(threeCards), offering(v1.ResourceNVIDIAGPU, "3")), pod("nvidia.com/gpu=3"), nil, "has too few free GPUs"},
		"one of them is in use, which one is not known":   {node(listing(threeCards), theirs), pod("nvidia.com/gpu=2"), []*corev1.Pod{running("a", pod("nvidia.com/gpu=1"), "")}, "has too few free GPUs"},
		"the broken one is in use, as the agent has said": {node(listing(threeCards), theirs), pod("nvidia.com/gpu=2"), []*corev1.Pod{running("a", pod("nvidia.com/gpu=1"), strings.Replace(onCard("B"), "falldio.com", "nvidia.com", 1))}, fits},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fitOn(t, test.node, test.pod, test.runs...); !strings.Contains(got, test.want) {
				t.Errorf("the node: %s; want: %s", got, test.want)
			}
		})
	}
}

func TestTheModelAndTheMemoryOfNVIDIAsNodes(t *testing.T) {
	t.Parallel()
	theirs := offering(v1.ResourceNVIDIAGPU, "1")
	product := labelled(v1.LabelNVIDIAProduct, "NVIDIA-H100-80GB-HBM3")
	tests := map[string]struct {
		node   *corev1.Node
		model  string
		memory int64
	}{
		"as GPU feature discovery says":                {node(theirs, product, labelled(v1.LabelNVIDIAMemory, "81559")), "h100-80gb-hbm3", 81559},
		"of GPUs that several Pods share":              {node(theirs, labelled(v1.LabelNVIDIAProduct, "Tesla-T4-SHARED")), "t4", 0},
		"our labels come first":                        {node(theirs, product, labelled(v1.LabelNVIDIAMemory, "81559"), labelled(v1.LabelGPUModel, "mine"), labelled(v1.LabelGPUMemory, "7")), "mine", 7},
		"a memory that makes no sense":                 {node(theirs, product, labelled(v1.LabelNVIDIAMemory, "lots")), "h100-80gb-hbm3", 0},
		"our agent may know that the models differ":    {node(product, labelled(v1.LabelNVIDIAMemory, "81559"), offering(v1.ResourceGPU, "1")), "", 0},
		"so it may on a node that offers them as both": {node(theirs, alsoOffering(v1.ResourceGPU, "1"), product, labelled(v1.LabelNVIDIAMemory, "81559")), "", 0},
		"without labels":                               {node(theirs), "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := (&NodeView{}).Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if got.Model != test.model {
				t.Errorf("model %q, want %q", got.Model, test.model)
			}
			if diff := cmp.Diff([]placement.GPU{{Memory: test.memory, Group: -1, NUMA: -1}}, got.GPUs); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-scheduler compares the labels themselves: the model that the engine makes of another
// label must not stand in for them.
func TestLabelsThatANodeLacksAreNotReplacedForSelectors(t *testing.T) {
	t.Parallel()
	n := node(offering(v1.ResourceNVIDIAGPU, "2"), labelled(v1.LabelNVIDIAProduct, "Tesla-T4"), labelled(v1.LabelNVIDIAMemory, "15360"))
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"the product that the node is labelled with": {selecting(pod("nvidia.com/gpu=1"), v1.LabelNVIDIAProduct, "Tesla-T4"), "it fits"},
		"another product":               {selecting(pod("nvidia.com/gpu=1"), v1.LabelNVIDIAProduct, "t4"), "node selector"},
		"our label":                     {selecting(pod("nvidia.com/gpu=1"), v1.LabelGPUModel, "t4"), "node selector"},
		"our label for the memory":      {affine(pod("nvidia.com/gpu=1"), term(v1.LabelGPUMemory, corev1.NodeSelectorOpGt, "9")), "node selector"},
		"NVIDIA's label for the memory": {affine(pod("nvidia.com/gpu=1"), term(v1.LabelNVIDIAMemory, corev1.NodeSelectorOpGt, "9")), "it fits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fitOn(t, n, test.pod); !strings.Contains(got, test.want) {
				t.Errorf("the node: %s; want: %s", got, test.want)
			}
		})
	}
}

func TestGPUsThatNoNodeListsAreLeftToKubeScheduler(t *testing.T) {
	t.Parallel()
	shape, err := Shape(selecting(pod("cpu=1,nvidia.com/gpu=2"), "disk", "ssd"))
	if err != nil {
		t.Fatal(err)
	}
	view := NodeView{}
	if first, second := view.Track(&shape), view.Track(&shape); first.IsEmpty() || !second.IsEmpty() {
		t.Error("it is new the first time, and known the second")
	}
	plain := node(labelled("disk", "ssd"), alsoOffering(v1.ResourceNVIDIAGPU, "0"))
	left := WithoutCards(shape)
	if diff := cmp.Diff("1 CPU, 2 nvidia.com/gpu, on nodes selected by disk", left.String()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if left.Selector.Key() == shape.Selector.Key() {
		t.Error("selectors that admit different nodes have the same key")
	}
	cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{plain}, nil)
	if room := cluster.Root().Room(cluster.Request(left)); room == 0 {
		t.Error("the engine refuses a node although a DRA driver may give out the GPUs")
	}
}
