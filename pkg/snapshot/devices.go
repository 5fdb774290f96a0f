// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

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
