// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// node returns a node that offers two GPUs.
func node(options ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("3500m"), corev1.ResourceMemory: resource.MustParse("1000Ki"), corev1.ResourcePods: resource.MustParse("110"),
		v1.ResourceGPU: resource.MustParse("2"),
	}
	for _, option := range options {
		option(n)
	}
	return n
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func listing(text string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[inventory.Annotation] = text }
}

func offering(name corev1.ResourceName, amount string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		delete(n.Status.Allocatable, v1.ResourceGPU)
		n.Status.Allocatable[name] = resource.MustParse(amount)
	}
}

const twoCards = `{"version":"v1","gpus":[` +
	`{"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":40960,"nvlinkGroup":1,"numaNode":0,"health":"Healthy"},` +
	`{"index":1,"uuid":"GPU-b","model":"A100","memoryMiB":40960,"health":"Unhealthy"}]}`

func TestTheGPUsOfANode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node *corev1.Node
		want []placement.GPU
		err  string
	}{
		"as its agent lists them": {
			node: node(listing(twoCards)),
			want: []placement.GPU{{Memory: 40960, Group: 1}, {Memory: 40960, Group: -1, NUMA: -1, Broken: true}},
		},
		"as its agent lists them, one of them cordoned": {
			node: node(listing(twoCards), func(n *corev1.Node) { n.Annotations[inventory.CordonAnnotation] = "0" }),
			want: []placement.GPU{{Memory: 40960, Group: 1, Broken: true}, {Memory: 40960, Group: -1, NUMA: -1, Broken: true}},
		},
		"as its agent lists them, offered as shares": {
			node: node(listing(twoCards), offering(v1.ResourceGPUPercent, "200")),
			want: []placement.GPU{{Memory: 40960, Group: 1}, {Memory: 40960, Group: -1, NUMA: -1, Broken: true}},
		},
		"listed, but not offered by the kubelet yet": {
			node: node(listing(twoCards), offering(v1.ResourceGPU, "0")),
			want: []placement.GPU{{Memory: 40960, Group: 1, Broken: true}, {Memory: 40960, Group: -1, NUMA: -1, Broken: true}},
		},
		"without those in MIG mode": {
			node: node(listing(`{"version":"v1","gpus":[{"index":0,"uuid":"GPU-m","memoryMiB":81920,"health":"Healthy","mig":true},{"index":1,"uuid":"GPU-w","memoryMiB":81920,"health":"Healthy"}]}`)),
			want: []placement.GPU{{Memory: 81920, Group: -1, NUMA: -1}},
		},
		"without an agent": {
			node: node(),
			want: []placement.GPU{{Group: -1, NUMA: -1}, {Group: -1, NUMA: -1}},
		},
		"without an agent, with a label for the memory": {
			node: node(labelled(v1.LabelGPUMemory, "24576"), offering(v1.ResourceGPU, "1")),
			want: []placement.GPU{{Memory: 24576, Group: -1, NUMA: -1}},
		},
		"without an agent, with a label that makes no sense": {
			node: node(labelled(v1.LabelGPUMemory, "lots"), offering(v1.ResourceGPU, "1")),
			want: []placement.GPU{{Group: -1, NUMA: -1}},
		},
		"none": {node: node(offering(v1.ResourceGPU, "0")), want: []placement.GPU{}},
		"an inventory that can't be read": {
			node: node(listing("{")), err: "node n: annotation falldio.com/gpu-inventory",
		},
		"an inventory of the future": {
			node: node(listing(`{"version":"v2"}`)), err: `version is "v2"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := (&NodeView{}).Node(test.node)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				if len(got.GPUs) > 0 || got.CPU != 3500 {
					t.Errorf("the node is %+v, want one without GPUs", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.GPUs); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCordonedGPUs(t *testing.T) {
	t.Parallel()
	const three = `{"version":"v1","gpus":[{"index":0,"uuid":"GPU-a","health":"Healthy"},{"index":1,"uuid":"GPU-b","health":"Healthy"},{"index":2,"uuid":"GPU-c","health":"Unhealthy"}]}`
	for text, want := range map[string][]int{
		"": nil, "0": {0}, "GPU-b": {1}, "0,GPU-b": {0, 1}, "1, 0": {0, 1}, "3,GPU-x,-1": nil, "all": nil, "2": nil, // it is unhealthy
	} {
		got, cards, err := (&NodeView{}).Node(node(listing(three), func(n *corev1.Node) { n.Annotations[inventory.CordonAnnotation] = text }))
		if err != nil {
			t.Fatal(err)
		}
		var cordoned, usable []int
		for i, gpu := range got.GPUs {
			if cards.Cordoned(i) {
				cordoned = append(cordoned, i)
			}
			if !gpu.Broken {
				usable = append(usable, i)
			}
		}
		if diff := cmp.Diff(want, cordoned); diff != "" {
			t.Errorf("%q: cordoned are (-want +got):\n%s", text, diff)
		}
		if len(usable) != 2-len(want) {
			t.Errorf("%q: usable are %v", text, usable)
		}
	}
}

func TestANodeWithMoreGPUsThanTheEngineKnows(t *testing.T) {
	t.Parallel()
	got, _, err := (&NodeView{}).Node(node(offering(v1.ResourceGPU, strconv.Itoa(2*placement.MaxCards))))
	if err != nil || len(got.GPUs) != placement.MaxCards {
		t.Errorf("%d GPUs, error %v, want %d", len(got.GPUs), err, placement.MaxCards)
	}
}

func TestWhatElseANodeIs(t *testing.T) {
	t.Parallel()
	got, _, err := (&NodeView{Levels: DefaultLevels()}).Node(node(
		labelled(v1.LabelGPUModel, "A100"), labelled(v1.LabelNodePool, "blue"), labelled(v1.LabelLeaf, "l1"),
		func(n *corev1.Node) { n.Spec.Unschedulable = true },
	))
	if err != nil {
		t.Fatal(err)
	}
	want := placement.Node{
		Name: "n", CPU: 3500, Memory: 0, Slots: 110, Model: "A100", Pool: "blue", Domains: []string{"-", "-", "l1"}, Closed: true,
		Traits: cordonedTraits,
		GPUs:   []placement.GPU{{Group: -1, NUMA: -1}, {Group: -1, NUMA: -1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestTheDomainsOfANode(t *testing.T) {
	t.Parallel()
	const zone, rack, leaf = "topology.kubernetes.io/zone", "falldio.com/rack", "falldio.com/leaf"
	tests := map[string]struct {
		labels map[string]string
		want   []string
	}{
		"all are labelled":       {map[string]string{zone: "z", rack: "r", leaf: "l"}, []string{"z", "r", "l"}},
		"only the widest is":     {map[string]string{zone: "z"}, []string{"z"}},
		"only the narrowest is":  {map[string]string{leaf: "l"}, []string{"-", "-", "l"}},
		"one between is missing": {map[string]string{zone: "z", leaf: "l"}, []string{"z", "-", "l"}},
		"none is":                {map[string]string{"other": "x"}, nil},
		"one is empty":           {map[string]string{zone: "z", rack: ""}, []string{"z"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, DefaultLevels().path(test.labels)); diff != "" {
				t.Errorf("domains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLevelsHaveNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"zone": 1, "rack": 2, "leaf": 3} {
		if got, err := DefaultLevels().Number(name); err != nil || got != want {
			t.Errorf("level %s is %d, error %v, want %d", name, got, err, want)
		}
	}
	if _, err := DefaultLevels().Number("row"); err == nil || !strings.Contains(err.Error(), `no topology level "row"; the levels are zone, rack and leaf`) {
		t.Errorf("an unknown level gives error %v", err)
	}
}

func TestLevelsWithoutANameAreLeftOutOfTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"with 2 more free GPUs in -/rack-1/leaf-3": "with 2 more free GPUs in rack-1/leaf-3",
		"in -/-/leaf-3 and z/-/leaf-4":             "in leaf-3 and z/leaf-4",
		"a well-known/other text":                  "a well-known/other text",
	} {
		if got := PlainDomains(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestTraitsAreWhatSelectorsCanTellApart(t *testing.T) {
	t.Parallel()
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			now := metav1.Now()
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: &now})
		}
	}
	tests := map[string]struct {
		keys []string
		node *corev1.Node
		want string
	}{
		"nobody selects":             {nil, node(labelled("disk", "ssd")), ""},
		"a label that is selected":   {[]string{"disk"}, node(labelled("disk", "ssd"), labelled("other", "x")), `{"labels":{"disk":"ssd"}}`},
		"a label that is empty":      {[]string{"disk"}, node(labelled("disk", "")), `{"labels":{"disk":""}}`},
		"a label that it lacks":      {[]string{"disk"}, node(), ""},
		"its name":                   {[]string{"metadata.name"}, node(), `{"name":"n"}`},
		"a taint, but not its time":  {nil, node(tainted("gpu", corev1.TaintEffectNoSchedule)), `{"taints":[{"key":"gpu","effect":"NoSchedule"}]}`},
		"a taint that only advises":  {nil, node(tainted("gpu", corev1.TaintEffectPreferNoSchedule)), `{"soft":[{"key":"gpu","effect":"PreferNoSchedule"}]}`},
		"the taint of a cordon":      {nil, node(tainted(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), cordonedTraits},
		"a cordon without its taint": {nil, node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), cordonedTraits},
		"taints in any order": {
			nil, node(tainted("b", corev1.TaintEffectNoSchedule), tainted("a", corev1.TaintEffectNoExecute)),
			`{"taints":[{"key":"a","effect":"NoExecute"},{"key":"b","effect":"NoSchedule"}]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := NodeView{}
			for _, key := range test.keys {
				view.trackLabel(&labelUse{key: key, all: true}, &Tracked{})
			}
			described, _, err := view.Node(test.node)
			if err != nil || described.Traits != test.want {
				t.Errorf("traits %s, error %v, want %s", described.Traits, err, test.want)
			}
		})
	}
}

const cordonedTraits = `{"taints":[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}]}`

func TestCardsArePausedWhileTheKubeletOffersNone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node *corev1.Node
		want bool
	}{
		"listed and offered":            {node(listing(twoCards)), false},
		"offered as shares only":        {node(listing(twoCards), offering(v1.ResourceGPUPercent, "200")), false},
		"offered by NVIDIA's plugin":    {node(listing(twoCards), offering(v1.ResourceNVIDIAGPU, "2")), false},
		"listed, but not offered":       {node(listing(twoCards), offering(v1.ResourceGPU, "0")), true},
		"neither listed nor offered":    {node(offering(v1.ResourceGPU, "0")), false},
		"the agent has found no GPUs":   {node(listing(`{"version":"v1","gpus":[]}`), offering(v1.ResourceGPU, "0")), false},
		"offered, but without an agent": {node(), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cards, err := (&NodeView{}).Node(test.node)
			if err != nil || cards.Paused() != test.want {
				t.Errorf("paused %t, error %v, want %t", cards.Paused(), err, test.want)
			}
		})
	}
}
