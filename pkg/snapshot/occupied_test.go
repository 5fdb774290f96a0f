// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

const threeCards = `{"version":"v1","gpus":[` +
	`{"index":0,"uuid":"A","memoryMiB":40960,"health":"Healthy"},` +
	`{"index":1,"uuid":"B","memoryMiB":40960,"health":"Unhealthy"},` +
	`{"index":2,"uuid":"C","memoryMiB":40960,"health":"Healthy"}]}`

// running returns a Pod on node n, with the given assignment.
func running(name string, p *corev1.Pod, assignment string) *corev1.Pod {
	p.Name, p.UID, p.Spec.NodeName = name, types.UID(name), "n"
	if assignment != "" {
		p.Annotations[inventory.AssignmentAnnotation] = assignment
	}
	return p
}

func onCard(uuid string) string {
	return `{"version":"v1","containers":{"c0":{"falldio.com/gpu":["` + uuid + `"]}}}`
}

func TestWhatPodsHoldOfANode(t *testing.T) {
	t.Parallel()
	ended := running("ended", pod("gpu=2"), "")
	ended.Status.Phase = corev1.PodSucceeded
	elsewhere := running("elsewhere", pod("gpu=1"), "")
	elsewhere.Spec.NodeName = "m"
	tests := map[string]struct {
		pods []*corev1.Pod
		// want is how many whole cards are free; two are healthy.
		want int
	}{
		"nobody":                                      {nil, 2},
		"a Pod with an assigned card":                 {[]*corev1.Pod{running("a", pod("gpu=1"), onCard("A"))}, 1},
		"a Pod with a broken card":                    {[]*corev1.Pod{running("a", pod("gpu=1"), onCard("B"))}, 2},
		"a Pod without an assignment has a free card": {[]*corev1.Pod{running("a", pod("gpu=1"), "")}, 1},
		"one without an assignment, one with the first card": {
			[]*corev1.Pod{running("a", pod("gpu=1"), ""), running("b", pod("gpu=1"), onCard("A"))}, 0,
		},
		"one without an assignment, one with the last card": {
			[]*corev1.Pod{running("a", pod("gpu=1"), ""), running("b", pod("gpu=1"), onCard("C"))}, 0,
		},
		"one that claims all cards has what it asks for": {
			[]*corev1.Pod{running("a", pod("gpu=1"), `{"version":"v1","containers":{"c0":{"falldio.com/gpu":["A","B","C"]}}}`)}, 1,
		},
		"one that claims all cards takes none from another": {
			[]*corev1.Pod{
				running("a", pod("gpu=1"), `{"version":"v1","containers":{"c0":{"falldio.com/gpu":["A","B","C"]}}}`),
				running("b", pod("gpu=1"), onCard("A")),
			}, 0,
		},
		"one that claims cards and asks for a share": {
			[]*corev1.Pod{running("a", pod("percent=1"), `{"version":"v1","containers":{"c0":{"falldio.com/gpu-percent":["A","B","C"]}}}`)}, 1,
		},
		"more than there are":                  {[]*corev1.Pod{running("a", pod("gpu=2"), ""), running("b", pod("gpu=2"), "")}, 0},
		"an invalid request":                   {[]*corev1.Pod{running("a", pod("gpu=1,percent=5"), "")}, 0},
		"one that has ended and one elsewhere": {[]*corev1.Pod{ended, elsewhere}, 2},
		"one without GPUs":                     {[]*corev1.Pod{running("a", pod("cpu=1"), "")}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := NodeView{Levels: DefaultLevels()}
			cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{node(listing(threeCards))}, test.pods)
			problems := cluster.Problems
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := cluster.Root().Room(cluster.Request(placement.Shape{GPUs: 1})); got != test.want {
				t.Errorf("%d cards are free, want %d", got, test.want)
			}
		})
	}
}

func TestWhatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	broken, twice := node(listing("{")), running("a", pod("cpu=1"), "")
	view := NodeView{}
	cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{broken, {}}, []*corev1.Pod{twice, twice})
	problems := cluster.Problems
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	if len(texts) != 3 || !strings.Contains(texts[0], "annotation falldio.com/gpu-inventory") || !strings.Contains(texts[2], "is placed already") {
		t.Errorf("problems: %q", texts)
	}
	if got := cluster.Root().Room(cluster.Request(placement.Shape{CPU: 1000})); got != 2 {
		t.Errorf("the rest does not count: there is room for %d Pods, want 2", got)
	}
}

func TestWhatIsSupposedCountsLessThanWhatIsWritten(t *testing.T) {
	t.Parallel()
	view := NodeView{}
	described, cards, err := view.Node(node(listing(threeCards)))
	if err != nil {
		t.Fatal(err)
	}
	cluster := placement.NewCluster(packing.New(packing.Default()))
	if err := cluster.SetNode(described); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		supposed []int
		want     []int
	}{
		"it is written":  {running("a", pod("gpu=1"), onCard("C")), []int{0}, []int{2}},
		"it is supposed": {running("a", pod("gpu=1"), ""), []int{2}, []int{2}},
		"it is a guess":  {running("a", pod("gpu=1"), ""), nil, []int{0}},
		"it wants none":  {running("a", pod("cpu=1"), onCard("C")), []int{0}, nil},
	} {
		if diff := cmp.Diff(test.want, Occupied(cluster, &described, cards, test.pod, test.supposed).GPUs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHugeRequestsLeaveNothingFree: what Pods ask for does not overflow when it is added up. Users can
// bind Pods themselves; the kubelet rejects such ones only later.
func TestHugeRequestsLeaveNothingFree(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string]corev1.ResourceList{
		"CPU": {corev1.ResourceCPU: resource.MustParse("5P")},
		"more CPU than can be counted in milli-cores": {corev1.ResourceCPU: resource.MustParse("9E")},
		"memory": {corev1.ResourceMemory: resource.MustParse("7E")},
		"both":   {corev1.ResourceCPU: resource.MustParse("9E"), corev1.ResourceMemory: resource.MustParse("9E")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			for i := range 5 {
				one := pod("")
				one.UID, one.Spec.NodeName = types.UID(fmt.Sprint(i)), "n"
				one.Spec.Containers[0].Resources.Requests = requests
				pods = append(pods, one)
			}
			small := placement.Shape{CPU: 1, Memory: 1}
			large := node(offering(corev1.ResourceMemory, "1Gi"))
			for bound := 1; bound <= len(pods); bound++ {
				cluster := (&NodeView{}).Cluster(packing.New(packing.Default()), []*corev1.Node{large}, pods[:bound])
				if _, fits := cluster.On("n", cluster.Request(small)); fits {
					t.Errorf("a Pod fits beside %d that ask for more than the node has", bound)
				}
			}
		})
	}
}
