// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

const (
	small       = "falldio.com/mig-1g.10gb"
	smallNVIDIA = "nvidia.com/mig-1g.10gb"
)

// dividedCards are a divided GPU, a whole one, and a broken one that is divided.
const dividedCards = `{"version":"v1","gpus":[` +
	`{"index":0,"uuid":"GPU-a","mig":true,"health":"Healthy","slices":[{"uuid":"MIG-1","profile":"1g.10gb"},{"uuid":"MIG-2","profile":"1g.10gb"}]},` +
	`{"index":1,"uuid":"GPU-b","health":"Healthy"},` +
	`{"index":2,"uuid":"GPU-c","mig":true,"health":"Unhealthy","slices":[{"uuid":"MIG-3","profile":"1g.10gb"}]}]}`

const onlyDivided = `{"version":"v1","gpus":[{"index":0,"uuid":"GPU-a","mig":true,"health":"Healthy","slices":[{"uuid":"MIG-1","profile":"1g.10gb"}]}]}`

const allBroken = `{"version":"v1","gpus":[{"index":0,"uuid":"GPU-a","mig":true,"health":"Unhealthy","slices":[{"uuid":"MIG-1","profile":"1g.10gb"}]}]}`

func TestPodsThatWantSlices(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod                     *corev1.Pod
		gpus, cards, ours, some bool
	}{
		"slices of ours":        {pod(small + "=1"), true, false, true, true},
		"slices of NVIDIA's":    {pod(smallNVIDIA + "=1"), true, false, false, true},
		"no slice":              {pod(small + "=0"), false, false, false, false},
		"an init container's":   {withInit(pod("cpu=1"), small+"=1"), true, false, true, true},
		"a GPU and a slice":     {pod("gpu=1", small+"=1"), true, true, true, true},
		"something else of MIG": {pod("falldio.com/mig-large=1"), false, false, false, false},
		"a share of a GPU":      {pod("percent=30"), true, true, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []bool{WantsGPUs(test.pod), WantsCards(test.pod), WantsOurSlices(test.pod), WantsSlices(test.pod)}
			if diff := cmp.Diff([]bool{test.gpus, test.cards, test.ours, test.some}, got); diff != "" {
				t.Errorf("wants GPUs, cards, our slices, slices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesArePartsOfAGPU(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		amounts map[string]int64
		want    int
	}{
		"a seventh, rounded down":       {map[string]int64{small: 1}, 14},
		"two sevenths":                  {map[string]int64{"falldio.com/mig-2g.20gb": 1}, 28},
		"seven of them are the GPU":     {map[string]int64{small: 7}, 100},
		"the whole GPU as one slice":    {map[string]int64{"falldio.com/mig-7g.80gb": 2}, 200},
		"two profiles are added first":  {map[string]int64{small: 1, "falldio.com/mig-3g.40gb": 2}, 100},
		"under NVIDIA's name":           {map[string]int64{smallNVIDIA: 2}, 28},
		"with the media engines":        {map[string]int64{"falldio.com/mig-1g.10gb.me": 1}, 14},
		"what is none":                  {map[string]int64{"rdma/hca": 4}, 0},
		"far more than a node can have": {map[string]int64{small: placement.MaxAmount}, placement.MaxCards * 100},
		"nothing":                       {nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			amounts := placement.NewAmounts(test.amounts)
			if got := SlicePercent(amounts); got != test.want {
				t.Errorf("they are %d %%, want %d", got, test.want)
			}
			shape, use := placement.Shape{GPUs: 1, Others: amounts}, placement.Use{GPUs: []int{0}, Percent: 30, Others: amounts}
			if got := GPUPercent(&shape); got != test.want+100 {
				t.Errorf("beside a GPU they are %d %%, want %d", got, test.want+100)
			}
			if got := UsePercent(&use); got != test.want+30 {
				t.Errorf("beside a share that is held they are %d %%, want %d", got, test.want+30)
			}
		})
	}
}

func TestTheModelOfSlicesIsTheEnginesBusiness(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"slices of ours":     {pod(small + "=2"), []string{"a100"}},
		"slices of NVIDIA's": {pod(smallNVIDIA + "=2"), nil}, // others may label the node
		"no GPUs at all":     {pod("cpu=1"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(selecting(test.pod, v1.LabelGPUModel, "a100"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, shape.Models); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesAreWhereNodesListThem(t *testing.T) {
	t.Parallel()
	two := alsoOffering(small, "2")
	const none, few = "has too few MIG slices of profile 1g.10gb", "has too few free MIG slices of profile 1g.10gb"
	running := pod(small + "=1")
	running.Spec.NodeName, running.UID = "n", "running"
	ofModel := selecting(pod(small+"=1"), v1.LabelGPUModel, "a100")
	tests := map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		runs []*corev1.Pod
		want string
	}{
		"there are as many":               {node(two), pod(small + "=2"), nil, "it fits"},
		"there are fewer":                 {node(two), pod(small + "=3"), nil, none},
		"one is held":                     {node(two), pod(small + "=2"), []*corev1.Pod{running}, few},
		"no node has any":                 {node(), pod(small + "=1"), nil, none},
		"those of NVIDIA's are others":    {node(alsoOffering(smallNVIDIA, "2")), pod(small + "=1"), nil, none},
		"nobody lists NVIDIA's: a driver": {node(), pod(smallNVIDIA + "=1"), nil, "it fits"},
		"of another model":                {node(two, labelled(v1.LabelGPUModel, "h100")), ofModel, nil, "has another GPU model"},
		"of the model":                    {node(two, labelled(v1.LabelGPUModel, "a100")), ofModel, nil, "it fits"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fitOn(t, test.node, test.pod, test.runs...); got != test.want {
				t.Errorf("the node %s, want: %s", got, test.want)
			}
		})
	}
}

func TestDividedGPUsAreNumberedWithTheOthers(t *testing.T) {
	t.Parallel()
	described, cards, err := (&NodeView{}).Node(node(listing(dividedCards)))
	if err != nil {
		t.Fatal(err)
	}
	if len(described.GPUs) != 1 {
		t.Errorf("the engine gets %d GPUs, want the one that is whole", len(described.GPUs))
	}
	if diff := cmp.Diff([]int{1}, cards.Numbers([]int{0, 7})); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0}, cards.Numbered([]int{0, 1, 2})); diff != "" {
		t.Errorf("indices (-want +got):\n%s", diff)
	}
	var divided []int
	for _, gpu := range cards.Divided() {
		divided = append(divided, gpu.Number, len(gpu.Slices))
	}
	if diff := cmp.Diff([]int{0, 2, 2, 1}, divided); diff != "" {
		t.Errorf("divided GPUs with the number of their slices (-want +got):\n%s", diff)
	}
	_, cards, err = (&NodeView{}).Node(node(listing(twoCards)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 0}, cards.Numbers([]int{1, 0})); diff != "" || len(cards.Divided()) > 0 {
		t.Errorf("without divided GPUs, numbers (-want +got):\n%s", diff)
	}
}

func TestANodeOfSlicesIsPausedWhileTheKubeletOffersNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"they are offered":                          {node(listing(onlyDivided), offering(small, "1")), false},
		"they are offered under NVIDIA's name":      {node(listing(onlyDivided), offering(smallNVIDIA, "1")), false},
		"they are not offered":                      {node(listing(onlyDivided), offering(small, "0")), true},
		"they are not offered as the GPU is broken": {node(listing(allBroken), offering(small, "0")), false},
		"whole GPUs beside them are offered":        {node(listing(dividedCards)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cards, err := (&NodeView{}).Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if got := cards.Paused(); got != test.want {
				t.Errorf("paused is %t, want %t", got, test.want)
			}
		})
	}
}

func TestTheSlicesOfAPod(t *testing.T) {
	t.Parallel()
	assigned := func(p *corev1.Pod, text string) *corev1.Pod {
		p.Annotations[inventory.AssignmentAnnotation] = text
		return p
	}
	const two = `{"version":"v1","containers":{"c0":{"falldio.com/mig-1g.10gb":["MIG-2","MIG-1"],"falldio.com/gpu":["GPU-a"]}}}`
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"those of its annotation":    {assigned(pod(small+"=2"), two), []string{"MIG-1", "MIG-2"}},
		"more than it asks for":      {assigned(pod(small+"=1"), two), nil},
		"none are known":             {pod(small + "=2"), nil},
		"an annotation from nowhere": {assigned(pod(small+"=2"), "{"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, AssignedSlices(test.pod)); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
			if _, known := newCards([]string{"GPU-a"}).Assigned(test.pod); known {
				t.Error("it is taken to have whole GPUs")
			}
		})
	}
	want := map[string]int64{"1g.10gb": 3}
	if diff := cmp.Diff(want, RequestedSlices(pod(small+"=1", smallNVIDIA+"=2", "gpu=1"))); diff != "" {
		t.Errorf("requested slices (-want +got):\n%s", diff)
	}
}

func TestAViewForPeopleCountsSlicesThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	view, nodes := NodeView{}, []*corev1.Node{node(alsoOffering(small, "3"), alsoOffering("rdma/hca", "1"))}
	view.TrackSlices(nodes)
	view.observe(nodes[0])
	described, _, err := view.Node(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(placement.Amounts{{Resource: small, Value: 3}}, described.Others); diff != "" {
		t.Errorf("other resources (-want +got):\n%s", diff)
	}
}
