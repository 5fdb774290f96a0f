// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Occupied returns what a bound Pod holds of its node: the cards in its annotation (it may have
// got them by resource claims), else
// those that are supposed, else a guess: another scheduler bound it, the node has no agent,
// or NVIDIA's device plugin gives out the cards, and the kubelet gave it free ones.
func Occupied(cluster *placement.Cluster, node *placement.Node, cards Cards, pod *corev1.Pod, supposed []int) placement.Use {
	switch assigned, known := cards.Assigned(pod); {
	case known:
		return Use(pod, assigned)
	case !WantsCards(pod):
		return Use(pod, nil)
	case len(supposed) > 0:
		return Use(pod, supposed)
	default:
		return Use(pod, guess(cluster, node, pod))
	}
}

func guess(cluster *placement.Cluster, node *placement.Node, pod *corev1.Pod) []int {
	held := heldOf(Requests(pod))
	shape := placement.Shape{GPUs: held.gpus, Share: held.share}
	if place, fits := cluster.On(node.Name, cluster.Request(shape)); fits {
		return place.GPUs
	}
	return healthyFirst(node.GPUs, max(shape.GPUs, min(shape.Share, 1)))
}

// healthyFirst returns count cards of a node without room for them: they count as used
// twice.
func healthyFirst(gpus []placement.GPU, count int) []int {
	var healthy, broken []int
	for i := range gpus {
		if gpus[i].Broken {
			broken = append(broken, i)
		} else {
			healthy = append(healthy, i)
		}
	}
	all := slices.Concat(healthy, broken)
	return all[:min(count, len(all))]
}

// Holder is a Pod that holds something on a node.
type Holder struct {
	Pod  *corev1.Pod
	Node string
}

// DevicesName is the name under which the engine counts the GPUs that resource claims hold on
// a node.
func DevicesName(node string) string { return "resource claims/" + node }

// DevicesUse returns what resource claims hold of a node's cards, given the UUIDs of their
// GPUs. Those that the node does not list are left out.
func DevicesUse(cards Cards, uuids []string) placement.Use {
	return placement.Use{GPUs: cards.Listed(uuids), Percent: placement.Card, NoSlot: true}
}

// OccupiedBesideClaims is Occupied for those who count the GPUs of resource claims themselves:
// it does not guess which of them a Pod has whose GPUs kube-scheduler took from a claim.
func OccupiedBesideClaims(cluster *placement.Cluster, node *placement.Node, cards Cards, pod *corev1.Pod, supposed []int) placement.Use {
	if _, assigned := cards.Assigned(pod); !assigned && HasGPUsOfClaim(pod) {
		return Use(pod, nil)
	}
	return Occupied(cluster, node, cards, pod, supposed)
}

// HasGPUsOfClaim reports whether the GPUs that a Pod asks for as an extended resource are devices
// of a resource claim that kube-scheduler has made for it.
func HasGPUsOfClaim(pod *corev1.Pod) bool {
	claim := pod.Status.ExtendedResourceClaimStatus
	return claim != nil && slices.ContainsFunc(claim.RequestMappings, func(mapping corev1.ContainerExtendedResourceRequest) bool {
		return slices.Contains(GPUResources(), corev1.ResourceName(mapping.ResourceName))
	})
}
