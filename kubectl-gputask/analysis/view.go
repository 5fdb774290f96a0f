// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package analysis answers questions about a cluster: why a task waits, whether one
// would fit, how the GPUs are used. It is pure: a snapshot of the cluster goes in, an
// answer with all facts comes out, and package show writes it.
package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// View answers questions about a cluster. It is not safe for concurrent use.
type View struct {
	*reschedule.Planner
	// pending are the valid reservations that no Pod has taken up yet.
	pending []nodeReservation
	// queues and what they hold are nil without GPUQueues. waiting are the Pods without a node, whatever their
	// owner, and line what waits in its order, once somebody has asked.
	queues  *Queues
	ledger  *queueing.Ledger
	waiting []*corev1.Pod
	line    *Line
	// slicesOf is who has which MIG slice, by the slices' UUIDs.
	slicesOf map[string]*corev1.Pod
}

// nodeReservation is a reservation with its node.
type nodeReservation struct {
	reservation.Reservation
	node string
}

// NewView returns a view of the objects of a cluster. The options decide what may be
// moved; nil stands for the defaults.
func NewView(objects *clusterview.Objects, options *reschedule.Options) *View {
	v := &View{Planner: reschedule.NewPlanner(clusterview.New(objects), options)}
	v.findPending()
	v.findSliceHolders()
	return v
}

// findPending collects the pending reservations of all nodes.
func (v *View) findPending() {
	onNode := map[string][]*corev1.Pod{}
	for _, pod := range v.Pods {
		onNode[pod.Spec.NodeName] = append(onNode[pod.Spec.NodeName], pod)
	}
	for i := range v.Tasks {
		for _, pod := range v.Tasks[i].Pods {
			onNode[pod.Spec.NodeName] = append(onNode[pod.Spec.NodeName], pod)
		}
	}
	for _, node := range v.Nodes {
		list, err := reservation.Of(node)
		if err != nil {
			v.Problems = append(v.Problems, err)
		}
		for i := range list {
			one := &list[i]
			taken := func(pod *corev1.Pod) bool { return one.TakenUpBy(pod, v.Cards[node.Name]) }
			if one.Holds(v.Now) && !slices.ContainsFunc(onNode[node.Name], taken) {
				v.pending = append(v.pending, nodeReservation{Reservation: *one, node: node.Name})
			}
		}
	}
}

// withReservations calls do with a cluster in which the reservations that block the
// waiting Pods are occupied: those for other Pods, unless the waiting ones have a higher
// priority.
func (v *View) withReservations(w *clusterview.Waiting, do func()) {
	own := map[string]bool{}
	for _, pod := range w.Pods {
		own[reservation.PodKey(pod.Namespace, pod.Name)] = true
	}
	v.Cluster.Try(func() bool {
		for i := range v.pending {
			if one := &v.pending[i]; one.Blocks(own, w.Priority) {
				v.occupy(one)
			}
		}
		do()
		return false
	})
}

// occupy takes a reserved place, as if its Pod had been bound.
func (v *View) occupy(one *nodeReservation) {
	use := one.Use(one.node, v.Cards[one.node], v.Cluster)
	// The name is not the UID of any Pod. A node that is gone reserves nothing.
	_ = v.Cluster.Place(placement.Pod{Name: "kept " + one.Plan + " " + one.Pod, Node: one.node, Use: use})
}

// Place is where one Pod goes.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// GPUs are the numbers of the cards on the node.
	GPUs []int `json:"gpus,omitempty"`
	// Slices is how many MIG slices it has, by profile.
	Slices map[string]int64 `json:"slices,omitempty"`
}

// places returns where the Pods of a gang go in a plan.
func (v *View) places(gang *snapshot.Members[*corev1.Pod], plan *placement.Plan) []Place {
	if plan == nil {
		return nil
	}
	pods, where := gang.Assign(plan)
	list := make([]Place, len(pods))
	for i, pod := range pods {
		list[i] = Place{Pod: pod.Name, Node: where[i].Node, GPUs: v.Cards[where[i].Node].Numbers(where[i].GPUs), Slices: slicesIn(where[i].Others)}
	}
	slices.SortFunc(list, func(a, b Place) int { return ComparePodNames(a.Pod, b.Pod) })
	return list
}

// ComparePodNames sorts train-2 before train-10.
func ComparePodNames(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// owners returns the names of the tasks that own the Pods, sorted; Pods without a task
// are named themselves.
func (v *View) owners(uids []string) []string {
	names := map[string]bool{}
	for _, uid := range uids {
		switch m := v.Member(uid); {
		case m == nil:
		case m.Task != nil:
			names[m.Task.Namespace+"/"+m.Task.Name] = true
		default:
			names[fmt.Sprintf("Pod %s/%s", m.Pod.Namespace, m.Pod.Name)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
