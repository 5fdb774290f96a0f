// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package analysis answers questions about a cluster: why a task waits, whether one
// would fit, how full the cluster is. It is pure: what there is comes in, an answer
// with all facts goes out, and package show writes it.
package analysis

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// View is a cluster to ask questions about. It is for one goroutine.
type View struct {
	*reschedule.Planner
	// kept are the reservations that hold and whose Pods have not come yet.
	kept []kept
}

// kept is a place that is kept for a Pod.
type kept struct {
	reservation.Reservation
	node string
}

// NewView returns a view of the Objects of a cluster. What may be moved follows from the
// options; nil for the default ones.
func NewView(objects *clusterview.Objects, options *reschedule.Options) *View {
	v := &View{Planner: reschedule.NewPlanner(clusterview.New(objects), options)}
	v.findKept()
	return v
}

// findKept reads the reservations of all nodes.
func (v *View) findKept() {
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
				v.kept = append(v.kept, kept{Reservation: *one, node: node.Name})
			}
		}
	}
}

// asSeenBy calls do with a cluster in which places are taken that are kept for others
// than the Pods that wait, unless these have a higher priority.
func (v *View) asSeenBy(w *clusterview.Waiting, do func()) {
	own := map[string]bool{}
	for _, pod := range w.Pods {
		own[reservation.PodKey(pod.Namespace, pod.Name)] = true
	}
	v.Cluster.Try(func() bool {
		for i := range v.kept {
			if one := &v.kept[i]; one.Blocks(own, w.Priority) {
				v.keep(one)
			}
		}
		do()
		return false
	})
}

// keep takes a place, as if the Pod that it is kept for had come.
func (v *View) keep(one *kept) {
	use := one.Use(one.node, v.Cards[one.node], v.Cluster)
	// The name is no UID of a Pod. A node that is gone keeps nothing.
	_ = v.Cluster.Place(placement.Pod{Name: "kept " + one.Plan + " " + one.Pod, Node: one.node, Use: use})
}

// Place is where one Pod goes.
type Place struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// GPUs are the indices of the cards.
	GPUs []int `json:"gpus,omitempty"`
}

// places names the Pods of a plan.
func places(gang *snapshot.Members[*corev1.Pod], plan *placement.Plan) []Place {
	if plan == nil {
		return nil
	}
	pods, where := gang.Assign(plan)
	list := make([]Place, len(pods))
	for i, pod := range pods {
		list[i] = Place{Pod: pod.Name, Node: where[i].Node, GPUs: where[i].GPUs}
	}
	slices.SortFunc(list, func(a, b Place) int { return comparePodNames(a.Pod, b.Pod) })
	return list
}

// comparePodNames sorts train-2 before train-10.
func comparePodNames(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// owners names tasks, sorted, whose Pods these are; Pods of others are named
// themselves.
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
