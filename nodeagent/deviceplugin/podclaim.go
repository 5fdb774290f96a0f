// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// boundAt is when a Pod was bound to its node, to the second.
func boundAt(pod *corev1.Pod) metav1.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return pod.Status.Conditions[i].LastTransitionTime
		}
	}
	return pod.CreationTimestamp
}

// claimsOf returns a Pod's claims to a resource, in the order in which the
// kubelet serves its containers. What doesn't match the Pod's own requests is
// left out: it will never be asked for.
func claimsOf(pod *corev1.Pod, assignment *inventory.Assignment, resource string) []Claim {
	var claims []Claim
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			container := &containers[i]
			ids := slices.Compact(slices.Sorted(slices.Values(assignment.Containers[container.Name][resource])))
			limit := container.Resources.Limits[corev1.ResourceName(resource)]
			if len(ids) == 0 || limit.Value() != int64(len(ids)) {
				continue
			}
			claims = append(claims, Claim{
				Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
				Container: container.Name, IDs: ids,
			})
		}
	}
	return claims
}

// matches is true if the kubelet may be asking for just this claim.
func (c *Claim) matches(available, must map[string]bool, size int) bool {
	if len(c.IDs) != size {
		return false
	}
	found := 0
	for _, id := range c.IDs {
		if !available[id] {
			return false
		}
		if must[id] {
			found++
		}
	}
	return found == len(must)
}
