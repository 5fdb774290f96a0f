// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests returns what a Pod asks for, which is what a node must have free for it.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// held returns what a bound Pod counts with on its node. While it is resized in place, that
// is the most of what it asks for, what the kubelet has allocated to it and what its
// containers have: kube-scheduler counts the same.
func held(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		// It is in the status only if the cluster has the feature.
		UseDRANodeAllocatableResourceClaimStatus: true,
	})
}

// Resized reports whether a bound Pod counts with other amounts on its node than before.
func Resized(before, after *corev1.Pod) bool {
	return !equality.Semantic.DeepEqual(held(before), held(after))
}
