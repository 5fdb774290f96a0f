// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Blocks reports whether a reservation keeps its place from Pods, given by their PodKeys,
// of a priority. It does not block the Pod that it is for, nor Pods of a higher priority.
func (r *Reservation) Blocks(pods map[string]bool, priority int32) bool {
	return !pods[r.Pod] && r.Priority >= priority
}

// TakenUpBy reports whether a Pod on the reservation's node, which has these cards, is the
// one that the place is reserved for: otherwise the place would count twice. A Pod that
// moves from some cards of a node to others of the same node is not, but its replacement
// is.
func (r *Reservation) TakenUpBy(pod *corev1.Pod, cards snapshot.Cards) bool {
	if pod.DeletionTimestamp != nil || PodKey(pod.Namespace, pod.Name) != r.Pod {
		return false
	}
	if r.Kind != Move {
		return true
	}
	has, known := cards.Assigned(pod)
	wanted := r.Indices(cards)
	return !known || len(wanted) == 0 || slices.Equal(has, wanted)
}

// Indices returns the indices of the reserved cards among those of the node, in order;
// those that the node does not list are left out.
func (r *Reservation) Indices(cards snapshot.Cards) []int { return cards.Listed(r.GPUs) }

// Use returns what a reservation takes of its node. On a node without an agent, whose cards
// have no UUIDs, it takes any free cards.
func (r *Reservation) Use(node string, cards snapshot.Cards, cluster *placement.Cluster) placement.Use {
	use := placement.Use{CPU: r.CPU, Memory: r.Memory, Others: placement.NewAmounts(r.Others)}
	if use.GPUs = r.Indices(cards); len(use.GPUs) == 0 && cards.Anonymous() {
		use.GPUs = r.anyCards(node, cluster)
	}
	if len(use.GPUs) > 0 {
		use.Percent = r.PercentOfEach()
	}
	return use
}

func (r *Reservation) anyCards(node string, cluster *placement.Cluster) []int {
	if r.Count() == 0 {
		return nil
	}
	shape := placement.Shape{GPUs: r.Count()}
	if r.PercentOfEach() < placement.Card {
		shape = placement.Shape{Share: r.PercentOfEach()}
	}
	if place, fits := cluster.On(node, cluster.Request(shape)); fits {
		return place.GPUs
	}
	all := make([]int, min(r.Count(), len(cluster.CardStates(node))))
	for i := range all {
		all[i] = i // they are in use: no other Pod gets them once they are free
	}
	return all
}
