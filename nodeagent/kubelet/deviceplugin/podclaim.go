// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
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

// awaitsDevices reports whether the kubelet has not begun with a Pod yet: it sets
// the start time right after it has handed out the devices.
func awaitsDevices(pod *corev1.Pod) bool {
	return (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "") &&
		pod.Status.StartTime == nil && pod.DeletionTimestamp == nil
}

// waitingPods returns the Pods that wait for devices, in the order in which the
// kubelet serves them, as far as that can be known: Pods come to it one by one as
// they are bound, but those that come together, after a restart, it serves in the
// order of their creation.
func waitingPods(pods []*corev1.Pod) []*corev1.Pod {
	var waiting []*corev1.Pod
	for _, pod := range pods {
		if awaitsDevices(pod) {
			waiting = append(waiting, pod)
		}
	}
	slices.SortFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Or(
			boundAt(a).Compare(boundAt(b).Time),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return waiting
}

// claimsOf returns a Pod's claims to a resource, in the order in which the
// kubelet serves its containers. A choice that doesn't match what a container
// requests is none: it will never be asked for. Shares are of one GPU.
func claimsOf(pod *corev1.Pod, resource string, shares bool) []Claim {
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		assignment = &inventory.Assignment{} // nothing that could be read was chosen
	}
	var claims []Claim
	add := func(container *corev1.Container, lends bool) {
		limit := container.Resources.Limits[corev1.ResourceName(resource)]
		claim := Claim{
			Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
			Container: container.Name, Size: int(limit.Value()), Share: shares, Lends: lends,
		}
		ids := share.GPUs(assignment.Containers[container.Name][resource])
		if len(ids) == claim.chosen() {
			claim.IDs = ids
		}
		if claim.Size > 0 {
			claims = append(claims, claim)
		}
	}
	for i := range pod.Spec.InitContainers {
		policy := pod.Spec.InitContainers[i].RestartPolicy
		add(&pod.Spec.InitContainers[i], policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	borrow(claims)
	return claims
}

// chosen is how many IDs a choice has.
func (c *Claim) chosen() int {
	if c.Share {
		return min(c.Size, 1)
	}
	return c.Size
}

// borrow lets init containers for which nothing was chosen claim what was chosen
// for the containers after them. Those get the devices of the init containers in
// any case, so with others they could not get what was chosen for them.
func borrow(claims []Claim) {
	for number := range claims {
		claim := &claims[number]
		if !claim.Lends || len(claim.IDs) > 0 {
			continue
		}
		var chosen []string
		for _, later := range claims[number+1:] {
			if !later.Lends {
				chosen = append(chosen, later.IDs...)
			}
		}
		if size := claim.chosen(); len(chosen) >= size {
			claim.IDs = slices.Sorted(slices.Values(chosen[:size]))
		}
	}
}

// isHeld reports whether what was chosen is what the container has.
func (c *Claim) isHeld(ids []string) bool {
	return len(ids) > 0 && len(ids) == c.Size && slices.Equal(c.IDs, share.GPUs(ids))
}

// fits reports whether what was chosen is among the available devices and has those
// that must be in it.
func (c *Claim) fits(r *request) bool {
	for _, id := range r.must {
		if !slices.Contains(c.IDs, share.GPU(id)) {
			return false
		}
	}
	return len(c.IDs) > 0 && len(r.of(c.IDs)) >= c.Size
}
