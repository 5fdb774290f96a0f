// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

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
		r.nodeDeleted(node)
	case choice < 3:
		r.nodeChanges(name, node)
	case choice < 8:
		r.comesTo(name)
	default:
		r.podChanges()
	}
}

// nodeChanges adds a node or changes it.
func (r *liveRun) nodeChanges(name string, before *corev1.Node) {
	r.addNode(name, fmt.Sprint("leaf-", r.dice.IntN(3)), 4)
	node := r.infos[name].Node().DeepCopy()
	node.Spec.Unschedulable = r.dice.IntN(5) == 0
	if r.dice.IntN(5) == 0 {
		node.Labels[v1.LabelNodePool] = "others"
	}
	r.nodes[name] = node
	if before == nil {
		r.nodeUpdated(nil, node)
		return
	}
	r.nodeUpdated(before, node)
}

// comesTo adds a Pod, with cards that are known or not, perhaps to a node that is not known.
func (r *liveRun) comesTo(node string) {
	r.next++
	one := at(pod(fmt.Sprint("p", r.next), r.dice.IntN(3)), node)
	if r.dice.IntN(2) == 0 {
		one = at(one, node, r.dice.IntN(4))
	}
	r.pods[one.UID] = one
	r.podUpdated(nil, one)
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
		after = at(before, before.Spec.NodeName, r.dice.IntN(4))
	case 1:
		after.Status.Phase = corev1.PodSucceeded
	case 2:
		after.Labels["touched"] = "true"
	default:
		delete(r.pods, before.UID)
		r.podDeleted(before)
		return
	}
	r.pods[before.UID] = after
	r.podUpdated(before, after)
}

// rebuilt is the cluster, made anew.
func (r *liveRun) rebuilt() *placement.Cluster {
	var nodes []*corev1.Node
	for _, node := range r.nodes {
		if r.Owns(node) {
			nodes = append(nodes, node)
		}
	}
	pods := slices.SortedFunc(maps.Values(r.pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	view := r.mirror.View()
	return view.Cluster(packing.New(packing.Default()), nodes, pods).Cluster
}

func (r *liveRun) check() {
	r.t.Helper()
	view := r.mirror.View()
	if diff := gocmp.Diff(r.measureCapacity(r.rebuilt()), r.measureCapacity(r.live.sync(&view)), gocmp.AllowUnexported(capacities{})); diff != "" {
		r.t.Fatalf("capacity (-rebuilt +followed):\n%s", diff)
	}
}

func TestTheMeasuredClusterEqualsOneThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		f := newFixture(t)
		f.mirror = mirror.New(f.logger, f.clock, f.levels, []string{""}) // nodes in a pool are not ours
		r := &liveRun{fixture: f, dice: rand.New(rand.NewPCG(seed, 3)), nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}}
		f.addNode("node-0", "leaf-0", 4)
		f.mirror.Refresh(f.nodes()) // only requests that could ever be met count
		for _, shape := range []placement.Shape{{GPUs: 1, CPU: 1000}, {GPUs: 2, CPU: 1000}, {Share: 50}} {
			f.mirror.Learn(shape, false)
		}
		if popular := f.mirror.Popular(measuredShapes); len(popular) != 3 {
			t.Fatalf("%d shapes are measured, want 3", len(popular))
		}
		for range 40 {
			for range 1 + r.dice.IntN(4) {
				r.act()
			}
			r.check()
			if r.dice.IntN(20) == 0 {
				picky := pod("picky", 1)
				picky.Spec.NodeSelector = map[string]string{v1.LabelLeaf: fmt.Sprint("leaf-", seed%3)}
				r.comes(picky)
				r.decide(picky) // from now on nodes differ by that label
			}
		}
		for _, one := range r.pods {
			r.podDeleted(one)
		}
		for _, node := range r.nodes {
			r.nodeDeleted(node)
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
		f.addNode(fmt.Sprint("node-", i), leaf, 8)
		f.nodeUpdated(nil, f.infos[fmt.Sprint("node-", i)].Node())
	}
	first, second := at(pod("first", 2), "node-0", 0, 1), at(pod("second", 4), "node-1", 4, 5, 6, 7)
	waits := pod("waits", 100)
	f.comes(first, second, waits)
	f.decide(waits)
	f.measure()
	wantFree := func(want map[string]float64) {
		t.Helper()
		for leaf, free := range want {
			if got, err := testutil.GetGaugeMetricValue(f.metrics.freeGPUs.WithLabelValues(leaf)); err != nil || got != free {
				t.Errorf("free in %s: %v, %v, want %v", leaf, got, err, free)
			}
		}
	}
	wantFree(map[string]float64{"measured-a": 10, "measured-b": 8})
	f.goes(first) // and no cycle follows
	f.podUpdated(nil, at(pod("third", 8), "node-2", 0, 1, 2, 3, 4, 5, 6, 7))
	f.measure()
	wantFree(map[string]float64{"measured-a": 12, "measured-b": 0})
}

func TestMeasuringTranslatesOnlyNodesThatHaveChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("node-", i)
		f.addNode(name, "a", 8)
		f.nodeUpdated(nil, f.infos[name].Node())
		f.podUpdated(nil, at(pod("stays-on-"+name, 0), name))
	}
	view := f.mirror.View()
	if free := f.measureCapacity(f.live.sync(&view)).free["-/-/a"]; free != 80 {
		t.Fatalf("%d GPUs are free, want 80", free)
	}
	f.podUpdated(nil, at(pod("comes", 0), "node-3"))
	if diff := gocmp.Diff([]string{"node-3"}, f.live.takeOutdated(&view)); diff != "" {
		t.Errorf("nodes to translate again (-want +got):\n%s", diff)
	}
	f.podUpdated(nil, at(pod("comes-too", 0), "node-3"))
	f.measureCapacity(f.live.sync(&view))
	if left := f.live.takeOutdated(&view); len(left) > 0 {
		t.Errorf("nodes to translate after a measurement: %v, want none", left)
	}
}
