// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Holder is a Pod that holds GPUs of a node.
type Holder struct {
	Pod *corev1.Pod
	// Task is the GPUTask that it belongs to; nil for none.
	Task     *clusterview.Task
	Priority int32
	// GPUs are the numbers of its cards on the node, and Percent how much of each it holds.
	GPUs    []int
	Percent int
	// Slices are the MIG slices that it holds, in the order of their GPUs.
	Slices []HeldSlice
	// Since is when it began to hold them.
	Since metav1.Time
}

// Holders returns who holds GPUs, by node, sorted by the first GPU and the name of the Pod.
func (v *View) Holders() map[string][]Holder {
	byNode, held := map[string][]Holder{}, map[string]map[string][]HeldSlice{}
	for pod := range v.Placed() {
		placed := v.Cluster.Look(string(pod.UID))
		if placed == nil || len(placed.GPUs) == 0 && !snapshot.WantsSlices(pod) {
			continue
		}
		if _, known := held[placed.Node]; !known {
			held[placed.Node] = v.heldSlices(placed.Node)
		}
		holder := Holder{
			Pod: pod, Priority: schedulingv1.PodPriority(pod), GPUs: v.Cards[placed.Node].Numbers(placed.GPUs), Percent: placed.Percent,
			Slices: held[placed.Node][string(pod.UID)], Since: metav1.NewTime(podfacts.FirstStarted(pod)),
		}
		if len(holder.GPUs) == 0 && len(holder.Slices) == 0 {
			continue // what it has is not listed
		}
		if member := v.Member(string(pod.UID)); member != nil {
			holder.Task = member.Task
		}
		byNode[placed.Node] = append(byNode[placed.Node], holder)
	}
	for _, holders := range byNode {
		slices.SortFunc(holders, func(a, b Holder) int {
			return cmp.Or(slices.Compare(a.GPUs, b.GPUs), slices.CompareFunc(a.Slices, b.Slices, compareSlices), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
		})
	}
	return byNode
}

func compareSlices(a, b HeldSlice) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Slice, b.Slice))
}

// ReservedFor returns for which Pods GPUs are reserved that nobody holds yet, "namespace/name" by node and index.
func (v *View) ReservedFor() map[string]map[int]string {
	byNode := v.reservedFor()
	for node, byIndex := range byNode {
		byNumber := make(map[int]string, len(byIndex))
		for index, pod := range byIndex {
			for _, number := range v.Cards[node].Numbers([]int{index}) {
				byNumber[number] = pod
			}
		}
		byNode[node] = byNumber
	}
	return byNode
}

// reservedFor is ReservedFor by the indices of the cards.
func (v *View) reservedFor() map[string]map[int]string {
	byNode := map[string]map[int]string{}
	for i := range v.pending {
		one := &v.pending[i]
		if byNode[one.node] == nil {
			byNode[one.node] = map[int]string{}
		}
		for _, card := range v.cardsOf(&one.Reservation, one.node, byNode[one.node]) {
			byNode[one.node][card] = one.Pod
		}
	}
	return byNode
}

// cardsOf returns the indices of reserved cards. On nodes without an agent the exact cards are unknown: the last free
// ones are taken.
func (v *View) cardsOf(one *reservation.Reservation, node string, taken map[int]string) []int {
	if cards := one.Indices(v.Cards[node]); len(cards) > 0 {
		return cards
	}
	return v.lastFree(node, one.Cards, taken)
}

// MoveCost is what it costs to move what a Pod belongs to, which moves as a whole.
type MoveCost struct {
	// Immovable is why it can't be moved now; empty if it can.
	Immovable string
	// Pods is how many Pods move together, and LostGPUSeconds the work that they would repeat.
	Pods           int
	LostGPUSeconds int64
}

// MoveCost returns what moving a Pod would cost; false for a Pod of another controller, which is never moved.
func (v *View) MoveCost(holder *Holder) (MoveCost, bool) {
	if holder.Task == nil {
		return MoveCost{}, false
	}
	member := v.Member(string(holder.Pod.UID))
	answer := MoveCost{Immovable: v.Immovable(holder.Task), Pods: len(member.Unit.Members)}
	for _, one := range member.Unit.Members {
		if one.Task != nil {
			answer.LostGPUSeconds += reschedule.Lost(one.Task.GPUTask, one.Pod, v.Now)
		}
	}
	return answer, true
}

// GPUsOf returns what the node agent has published about the GPUs of a node, by their index in the engine; nil without
// an agent.
func (v *View) GPUsOf(node *corev1.Node) map[int]*inventory.GPU {
	text := node.Annotations[inventory.Annotation]
	if text == "" {
		return nil
	}
	listed, err := inventory.Parse(text)
	if err != nil {
		return nil // it is among the problems of the view
	}
	gpus := make(map[int]*inventory.GPU, len(listed.GPUs))
	for i := range listed.GPUs {
		gpus[i] = &listed.GPUs[i]
	}
	return gpus
}

// NodeCards returns how each GPU of a node is used; nil for an unknown node.
func (v *View) NodeCards(name string) []Card {
	node := v.Node(name)
	if node == nil {
		return nil
	}
	return v.nodeUse(node, v.reservedFor()[name], nil).GPUs
}

// Model returns the model of a node's GPUs; empty for none.
func (v *View) Model(name string) string {
	if node := v.Node(name); node != nil {
		return snapshot.Model(node)
	}
	return ""
}
