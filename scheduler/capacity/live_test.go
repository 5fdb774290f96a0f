// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// gaugesOnce: metrics can only be registered once in a process.
var gaugesOnce = sync.OnceValues(NewGauges)

// fixture is a Meter of a cluster of which the mirror has seen the nodes.
type fixture struct {
	*Meter
	t      testing.TB
	mirror *mirror.Mirror
}

// newFixture returns a Meter of the nodes of some pools, all if there are none.
func newFixture(tb testing.TB, pools ...string) *fixture {
	tb.Helper()
	gauges, err := gaugesOnce()
	if err != nil {
		tb.Fatal(err)
	}
	clock, levels := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)), config.DefaultGangArgs().Levels()
	seen := mirror.New(ktesting.NewLogger(tb, ktesting.NewConfig()), clock, levels, pools)
	sources := Sources{
		Mirror: seen, Levels: levels, Gangs: func() gangs.Counts { return gangs.Counts{} }, KeptNodes: func() int { return 0 },
	}
	return &fixture{t: tb, mirror: seen, Meter: NewMeter(clock, sources, gauges)}
}

// demand has shapes measured that fit on one of the nodes.
func (f *fixture) demand(nodes []*corev1.Node, shapes ...placement.Shape) {
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, node := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		infos[i] = info
	}
	f.mirror.Refresh(infos)
	for _, shape := range shapes {
		f.mirror.Learn(shape, false)
	}
}

// node returns a node in a leaf, with so many cards.
func (f *fixture) node(name, leaf string, cards int) *corev1.Node {
	f.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelLeaf: leaf}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("20"),
		v1.ResourceGPU: resource.MustParse(strconv.Itoa(cards)),
	}
	listed := inventory.Inventory{}
	for i := range cards {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", name, i), MemoryMiB: 40960, Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		f.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, inventory.Annotation, text)
	return node
}

// pod returns a Pod with so many GPUs on a node, with the cards of these numbers if there are any.
func (f *fixture) pod(name string, gpus int, node string, cards ...int) *corev1.Pod {
	f.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), v1.ResourceGPU: resource.MustParse(strconv.Itoa(gpus)),
	}}}}
	f.assign(p, cards...)
	return p
}

// assign gives a Pod cards of its node.
func (f *fixture) assign(pod *corev1.Pod, cards ...int) {
	f.t.Helper()
	if len(cards) == 0 {
		return
	}
	assignment := inventory.Assignment{}
	for _, card := range cards {
		assignment.Add("main", string(v1.ResourceGPU), fmt.Sprintf("%s-%d", pod.Spec.NodeName, card))
	}
	text, err := assignment.String()
	if err != nil {
		f.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, inventory.AssignmentAnnotation, text)
}

// liveRun is a random sequence of events, with the objects that there are.
type liveRun struct {
	*fixture
	dice  *rand.Rand
	nodes map[string]*corev1.Node
	pods  map[types.UID]*corev1.Pod
	next  int
}

func (r *liveRun) act() {
	name := fmt.Sprint("node-", r.dice.IntN(6))
	node := r.nodes[name]
	switch choice := r.dice.IntN(12); {
	case choice == 0 && node != nil:
		delete(r.nodes, name)
		r.NodeGone(name)
	case choice < 3:
		r.nodeChanges(name)
	case choice < 8:
		r.comesTo(name)
	default:
		r.podChanges()
	}
}

// nodeChanges adds a node or changes it.
func (r *liveRun) nodeChanges(name string) {
	node := r.node(name, fmt.Sprint("leaf-", r.dice.IntN(3)), 4)
	node.Spec.Unschedulable = r.dice.IntN(5) == 0
	if r.dice.IntN(5) == 0 {
		node.Labels[v1.LabelNodePool] = "others"
	}
	r.nodes[name] = node
	r.NodeChanged(node)
}

// comesTo adds a Pod, with cards that are known or not, perhaps to a node that is not known.
func (r *liveRun) comesTo(node string) {
	r.next++
	one := r.pod(fmt.Sprint("p", r.next), r.dice.IntN(3), node)
	if r.dice.IntN(2) == 0 {
		r.assign(one, r.dice.IntN(4))
	}
	r.pods[one.UID] = one
	r.PodChanged(one)
}

// podChanges changes a Pod, ends it or removes it.
func (r *liveRun) podChanges() {
	uids := slices.Sorted(maps.Keys(r.pods))
	if len(uids) == 0 {
		return
	}
	before := r.pods[uids[r.dice.IntN(len(uids))]]
	after := before.DeepCopy()
	switch r.dice.IntN(4) {
	case 0:
		r.assign(after, r.dice.IntN(4))
	case 1:
		after.Status.Phase = corev1.PodSucceeded
	case 2:
		after.Labels["touched"] = "true"
	default:
		delete(r.pods, before.UID)
		r.PodGone(before)
		return
	}
	r.pods[before.UID] = after
	r.PodChanged(after)
}

// rebuilt is the cluster, made anew.
func (r *liveRun) rebuilt() *placement.Cluster {
	var nodes []*corev1.Node
	for _, node := range r.nodes {
		if r.mirror.Owns(node) {
			nodes = append(nodes, node)
		}
	}
	pods := slices.Collect(maps.Values(r.pods)) // in any order
	view := r.mirror.View()
	return view.Cluster(packing.New(packing.Default()), nodes, pods).Cluster
}

func (r *liveRun) check() {
	r.t.Helper()
	if diff := gocmp.Diff(r.measure(r.rebuilt()), r.measure(r.cluster()), gocmp.AllowUnexported(capacities{})); diff != "" {
		r.t.Fatalf("capacity (-rebuilt +followed):\n%s", diff)
	}
}

func TestTheMeasuredClusterEqualsOneThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		f := newFixture(t, "") // nodes in a pool are not ours
		r := &liveRun{fixture: f, dice: rand.New(rand.NewPCG(seed, 3)), nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}}
		// Only requests that could ever be met count.
		f.demand([]*corev1.Node{f.node("node-0", "leaf-0", 4)}, placement.Shape{GPUs: 1, CPU: 1000}, placement.Shape{GPUs: 2, CPU: 1000}, placement.Shape{Share: 50})
		if popular := f.mirror.Popular(measuredShapes); len(popular) != 3 {
			t.Fatalf("%d shapes are measured, want 3", len(popular))
		}
		for range 40 {
			for range 1 + r.dice.IntN(4) {
				r.act()
			}
			r.check()
			if r.dice.IntN(20) == 0 {
				picky := f.pod("picky", 1, "")
				picky.Spec.NodeSelector = map[string]string{v1.LabelLeaf: fmt.Sprint("leaf-", seed%3)}
				shape, err := snapshot.Shape(picky)
				if err != nil {
					t.Fatal(err)
				}
				f.mirror.Watch(&shape) // from now on nodes differ by that label
			}
		}
		for _, one := range r.pods {
			r.PodGone(one)
		}
		for name := range r.nodes {
			r.NodeGone(name)
		}
		clear(r.pods)
		clear(r.nodes)
		r.check()
		if len(r.live.nodes) != 0 {
			r.t.Fatalf("seed %d: %d nodes are remembered, want none", seed, len(r.live.nodes))
		}
	}
}

// The mirror shows what the last scheduling cycle saw, which may be long ago.
func TestTheMetricsShowWhatTheInformersShow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, leaf := range []string{"measured-a", "measured-a", "measured-b"} {
		f.NodeChanged(f.node(fmt.Sprint("node-", i), leaf, 8))
	}
	first, second := f.pod("first", 2, "node-0", 0, 1), f.pod("second", 4, "node-1", 4, 5, 6, 7)
	f.PodChanged(first)
	f.PodChanged(second)
	f.Measure()
	wantFree := func(want map[string]float64) {
		t.Helper()
		for leaf, free := range want {
			if got, err := testutil.GetGaugeMetricValue(f.gauges.freeGPUs.WithLabelValues(leaf)); err != nil || got != free {
				t.Errorf("free in %s: %v, %v, want %v", leaf, got, err, free)
			}
		}
	}
	wantFree(map[string]float64{"measured-a": 10, "measured-b": 8})
	f.PodGone(first) // and no cycle follows
	f.PodChanged(f.pod("third", 8, "node-2", 0, 1, 2, 3, 4, 5, 6, 7))
	f.Measure()
	wantFree(map[string]float64{"measured-a": 12, "measured-b": 0})
}

func TestMeasuringTranslatesOnlyNodesThatHaveChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("node-", i)
		f.NodeChanged(f.node(name, "a", 8))
		f.PodChanged(f.pod("stays-on-"+name, 0, name))
	}
	view := f.mirror.View()
	if free := f.measure(f.cluster()).free["-/-/a"]; free != 80 {
		t.Fatalf("%d GPUs are free, want 80", free)
	}
	f.PodChanged(f.pod("comes", 0, "node-3"))
	if diff := gocmp.Diff([]string{"node-3"}, f.live.takeOutdated(&view)); diff != "" {
		t.Errorf("nodes to translate again (-want +got):\n%s", diff)
	}
	f.PodChanged(f.pod("comes-too", 0, "node-3"))
	f.measure(f.cluster())
	if left := f.live.takeOutdated(&view); len(left) > 0 {
		t.Errorf("nodes to translate after a measurement: %v, want none", left)
	}
}

func TestTheMirrorTheViewAndTheGaugesGuessTheSameCards(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		f, dice := newFixture(t), rand.New(rand.NewPCG(seed, 7))
		node, info := f.node("node", "a", 4), framework.NewNodeInfo()
		info.SetNode(node)
		f.NodeChanged(node)
		var pods []*corev1.Pod
		for i := range 5 {
			one := f.pod(fmt.Sprint("p", i), 0, "node")
			delete(one.Spec.Containers[0].Resources.Requests, v1.ResourceGPU)
			one.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent] = *resource.NewQuantity(10*(1+dice.Int64N(9)), resource.DecimalSI)
			pods = append(pods, one)
		}
		dice.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, one := range pods {
			info.AddPod(one)
			f.PodChanged(one)
		}
		f.mirror.Refresh([]fwk.NodeInfo{info})
		dice.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		view := f.mirror.View()
		viewed := view.Cluster(packing.New(packing.Default()), []*corev1.Node{node}, pods).CardStates("node")
		var mirrored []placement.CardState
		f.mirror.With(func(cluster *placement.Cluster) { mirrored = cluster.CardStates("node") })
		if diff := gocmp.Diff(viewed, mirrored); diff != "" {
			t.Fatalf("seed %d: cards (-view +mirror):\n%s", seed, diff)
		}
		if diff := gocmp.Diff(viewed, f.cluster().CardStates("node")); diff != "" {
			t.Fatalf("seed %d: cards (-view +gauges):\n%s", seed, diff)
		}
	}
}
