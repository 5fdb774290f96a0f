// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Scene is a World as the engine sees it. It is for one goroutine. Places that are
// reserved for moves under way count as free in it.
type Scene struct {
	*World
	Options Options
	// Cluster knows Pods by their UIDs.
	Cluster *placement.Cluster
	// Cards are the GPUs of each node, by its name.
	Cards map[string]snapshot.Cards
	// Problems are what could not be read; the rest counts all the same.
	Problems []error
	// Ledger is what moves have cost lately.
	Ledger *Ledger
	// Disruptions are the World's Budgets.
	Disruptions *disruption.Budgets

	view  snapshot.NodeView
	nodes map[string]*corev1.Node
	// members are the Pods that hold a place or wait for one, by UID.
	members map[string]*member
	// units are what moves together, in the order of their keys.
	units []*unit
	byKey map[string]*unit
	// byTask are the units that a task has Pods in: one, if its labels are as the
	// controller wrote them.
	byTask map[types.NamespacedName][]*unit
	// proposals are the plans that wait for their approval.
	proposals []*v1.MovePlan
}

// NewScene shows a World to the engine. The Options are those of DefaultOptions if
// there are none.
func NewScene(w *World, o *Options) *Scene {
	s := &Scene{
		World: w, Options: DefaultOptions(),
		nodes: make(map[string]*corev1.Node, len(w.Nodes)), members: map[string]*member{}, byKey: map[string]*unit{},
		byTask: map[types.NamespacedName][]*unit{},
	}
	if o != nil {
		s.Options = *o
	}
	s.Ledger, s.Disruptions = NewLedger(w.Plans, w.Now), disruption.NewBudgets(w.Budgets)
	s.view = snapshot.NodeView{Levels: w.Levels, Keys: map[string]bool{}}
	s.gather()
	s.group()
	s.buildCluster()
	return s
}

// gather finds all Pods that count, each once.
func (s *Scene) gather() {
	placed := make(map[types.UID]*corev1.Pod, len(s.Pods))
	for _, pod := range s.Pods {
		placed[pod.UID] = pod
	}
	for i := range s.Tasks {
		task := &s.Tasks[i]
		for _, pod := range task.Pods {
			// Both lists may come from different caches: who has a node keeps it.
			if newer := placed[pod.UID]; newer != nil && pod.Spec.NodeName == "" {
				pod = newer
			}
			if !snapshot.Ended(pod) {
				s.add(pod, task)
			}
		}
	}
	for _, pod := range s.Pods {
		if s.members[string(pod.UID)] == nil && !snapshot.Ended(pod) {
			s.add(pod, nil)
		}
	}
}

func (s *Scene) add(pod *corev1.Pod, task *Task) {
	m := &member{pod: pod, task: task}
	m.shape, m.err = snapshot.Shape(pod)
	if task == nil || m.err != nil {
		m.shape.Selector = nil // it never moves, and its labels need not be known
	}
	if selector, ours := m.shape.Selector.(*snapshot.Selector); ours {
		for _, key := range selector.LabelKeys() {
			s.view.Keys[key] = true
		}
	}
	s.members[string(pod.UID)] = m
}

// buildCluster gives the engine the nodes and the Pods that have one, in an order that does
// not depend on where they come from.
func (s *Scene) buildCluster() {
	nodes := make([]*corev1.Node, 0, len(s.Nodes))
	for _, node := range s.Nodes {
		s.nodes[node.Name] = node
		nodes = append(nodes, closedUnlessReady(node))
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var placed []*corev1.Pod
	for _, m := range s.sorted() {
		if m.pod.Spec.NodeName != "" {
			placed = append(placed, m.pod)
		}
	}
	policy := packing.New(packing.Default())
	picture := s.view.Picture(policy, nodes, placed)
	s.Cluster, s.Cards, s.Problems = picture.Cluster, picture.Cards, append(s.Problems, picture.Problems...)
	for _, m := range s.sorted() {
		if m.task != nil && m.err == nil {
			policy.Mix().Add(s.Cluster.Request(m.shape))
		}
	}
	policy.Refresh(s.Cluster)
}

// closedUnlessReady keeps Pods off nodes that are silent: the taint that says so
// comes later than the condition.
func closedUnlessReady(node *corev1.Node) *corev1.Node {
	if snapshot.Ready(node) || node.Spec.Unschedulable {
		return node
	}
	closed := *node
	closed.Spec.Unschedulable = true
	return &closed
}

// sorted returns all members in the order of their names.
func (s *Scene) sorted() []*member {
	list := make([]*member, 0, len(s.members))
	for _, m := range s.members {
		list = append(list, m)
	}
	slices.SortFunc(list, compareMembers)
	return list
}

func compareMembers(a, b *member) int {
	return cmp.Or(
		cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

// place returns where a Pod is.
func (s *Scene) place(pod *corev1.Pod) v1.MovePlace {
	running, _ := s.Cluster.Running(string(pod.UID))
	return s.movePlace(pod.Spec.NodeName, running.GPUs)
}

func (s *Scene) movePlace(node string, gpus []int) v1.MovePlace {
	return v1.MovePlace{Node: node, GPUs: s.Cards[node].Names(gpus)}
}
