// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Requests returns what a Pod asks for, which is what a node must have free for it. It must
// not be changed.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	if isPlain(pod) {
		return pod.Spec.Containers[0].Resources.Requests
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// held returns what a bound Pod counts with on its node. While it is resized in place, that
// is the most of what it asks for, what the kubelet has allocated to it and what its
// containers have: kube-scheduler counts the same. It must not be changed.
func held(pod *corev1.Pod) corev1.ResourceList {
	if isPlain(pod) && hasPlainStatus(pod) {
		return pod.Spec.Containers[0].Resources.Requests
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		// It is in the status only if the cluster has the feature.
		UseDRANodeAllocatableResourceClaimStatus: true,
	})
}

// isPlain reports whether a Pod asks for what its only container asks for. Most Pods do, and
// adding up the others' requests makes garbage: on a large cluster, more than all else.
func isPlain(pod *corev1.Pod) bool {
	return len(pod.Spec.Containers) == 1 && len(pod.Spec.InitContainers) == 0 && pod.Spec.Overhead == nil && pod.Spec.Resources == nil
}

// hasPlainStatus reports whether the status of a plain Pod shows no other amounts than its
// spec: it is not being resized.
func hasPlainStatus(pod *corev1.Pod) bool {
	asked, status := pod.Spec.Containers[0].Resources.Requests, &pod.Status
	for i := range status.Conditions {
		if status.Conditions[i].Type == corev1.PodResizePending {
			return false
		}
	}
	for i := range status.ContainerStatuses {
		container := &status.ContainerStatuses[i]
		if !shows(container.Resources, asked) || container.AllocatedResources != nil && !equal(container.AllocatedResources, asked) {
			return false
		}
	}
	return shows(status.Resources, asked) && (status.AllocatedResources == nil || equal(status.AllocatedResources, asked)) &&
		len(status.NodeAllocatableResourceClaimStatuses) == 0
}

// shows reports whether what a container has, if that is known, is what was asked for.
func shows(has *corev1.ResourceRequirements, asked corev1.ResourceList) bool {
	return has == nil || equal(has.Requests, asked)
}

func equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// Resized reports whether a bound Pod counts with other amounts on its node than before.
func Resized(before, after *corev1.Pod) bool {
	return !equality.Semantic.DeepEqual(held(before), held(after))
}

// ResourcesChanged reports whether a Pod may hold other resources of its node than before: it was resized, or its cards
// were corrected.
func ResourcesChanged(before, after *corev1.Pod) bool {
	return before.Spec.NodeName != "" && !inventory.SameDevices(before.Annotations[inventory.AssignmentAnnotation], after.Annotations[inventory.AssignmentAnnotation]) ||
		Resized(before, after)
}
