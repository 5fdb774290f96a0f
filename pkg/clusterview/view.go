// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// View is the Objects of a cluster as the engine sees them. It is not safe for concurrent
// use. Places that are reserved for moves in progress count as free.
type View struct {
	*Objects
	// Cluster identifies Pods by their UIDs.
	Cluster *placement.Cluster
	// Cards are the GPUs of each node, by node name.
	Cards map[string]snapshot.Cards
	// Problems are what could not be read; everything else is included.
	Problems []error
	// Disruptions are the Objects' Budgets.
	Disruptions *disruption.Budgets
	// Units are the groups of Pods that start and move together, sorted by key.
	Units []*Unit

	nodeView snapshot.NodeView
	nodes    map[string]*corev1.Node
	// members are the Pods that hold a place or wait for one, by UID.
	members map[string]*Member
	byKey   map[string]*Unit
	byTask  map[types.NamespacedName][]*Unit
}

// New returns a view of the Objects.
func New(objects *Objects) *View {
	v := &View{
		Objects: objects, Disruptions: disruption.NewBudgets(objects.Budgets),
		nodeView: snapshot.NodeView{Levels: objects.Levels},
		nodes:    make(map[string]*corev1.Node, len(objects.Nodes)), members: map[string]*Member{},
		byKey: map[string]*Unit{}, byTask: map[types.NamespacedName][]*Unit{},
	}
	v.gather()
	v.group()
	v.buildCluster()
	return v
}

// Node returns a node by its name; nil if there is none.
func (v *View) Node(name string) *corev1.Node { return v.nodes[name] }

// Member returns a Pod that holds a place or waits for one, by its UID; nil if there is
// none.
func (v *View) Member(uid string) *Member { return v.members[uid] }

// Unit returns a unit by its key; nil if there is none.
func (v *View) Unit(key string) *Unit { return v.byKey[key] }

// UnitsOf returns the units that a task has Pods in: one, if the labels of its Pods are as
// the controller wrote them; none, if it has no Pods.
func (v *View) UnitsOf(task types.NamespacedName) []*Unit { return v.byTask[task] }

// gather adds all Pods that have not ended, each once.
func (v *View) gather() {
	placed := make(map[types.UID]*corev1.Pod, len(v.Pods))
	for _, pod := range v.Pods {
		placed[pod.UID] = pod
	}
	for i := range v.Tasks {
		task := &v.Tasks[i]
		for _, pod := range task.Pods {
			// The two lists may come from different caches: a Pod that is bound stays
			// bound.
			if newer := placed[pod.UID]; newer != nil && pod.Spec.NodeName == "" {
				pod = newer
			}
			if !podfacts.Ended(pod) {
				v.add(pod, task)
			}
		}
	}
	for _, pod := range v.Pods {
		if v.members[string(pod.UID)] == nil && !podfacts.Ended(pod) {
			v.add(pod, nil)
		}
	}
}

func (v *View) add(pod *corev1.Pod, task *Task) {
	m := &Member{Pod: pod, Task: task}
	m.Shape, m.Err = snapshot.Shape(pod)
	if task == nil || m.Err != nil {
		m.Shape.Selector, m.Shape.Preference, m.Shape.Others = nil, nil, nil // it never moves, so the nodes need not have them
	}
	v.nodeView.Track(&m.Shape)
	v.members[string(pod.UID)] = m
}

// buildCluster passes the nodes and the bound Pods to the engine, in a canonical order.
func (v *View) buildCluster() {
	nodes := make([]*corev1.Node, 0, len(v.Nodes))
	for _, node := range v.Nodes {
		v.nodes[node.Name] = node
		nodes = append(nodes, snapshot.TaintUnlessReady(node))
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	members := v.sorted()
	var placed []*corev1.Pod
	for _, m := range members {
		if m.Pod.Spec.NodeName != "" {
			placed = append(placed, m.Pod)
		}
	}
	v.nodeView.TrackSlices(nodes)
	policy := packing.New(packing.Default())
	built := v.nodeView.Cluster(policy, nodes, placed)
	v.Cluster, v.Cards, v.Problems = built.Cluster, built.Cards, append(v.Problems, built.Problems...)
	for _, m := range members {
		if m.Task != nil && m.Err == nil {
			policy.Mix().Add(v.Cluster.Request(m.Shape))
		}
	}
	policy.Refresh(v.Cluster)
}

// sorted returns all members, sorted by name.
func (v *View) sorted() []*Member {
	return slices.SortedFunc(maps.Values(v.members), func(a, b *Member) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
}

// Placed returns the Pods that have a node and have not ended, in no order.
func (v *View) Placed() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, m := range v.members {
			if m.Pod.Spec.NodeName != "" && !yield(m.Pod) {
				return
			}
		}
	}
}

// Place returns where a Pod is.
func (v *View) Place(pod *corev1.Pod) v1.MovePlace {
	running, _ := v.Cluster.Running(string(pod.UID))
	return v.MovePlace(pod.Spec.NodeName, running.GPUs)
}

// MovePlace returns a place in the form of a MovePlan.
func (v *View) MovePlace(node string, gpus []int) v1.MovePlace {
	return v1.MovePlace{Node: node, GPUs: v.Cards[node].Names(gpus)}
}
