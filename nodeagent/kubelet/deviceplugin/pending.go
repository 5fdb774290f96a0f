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
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// boundAt returns when a Pod was bound to its node, to the second.
func boundAt(pod *corev1.Pod) metav1.Time {
	if bound := podfacts.Condition(pod, corev1.PodScheduled); bound != nil {
		return bound.LastTransitionTime
	}
	return pod.CreationTimestamp
}

// awaitsDevices reports whether the kubelet has not admitted a Pod yet: it sets the
// start time right after it has allocated the devices.
func awaitsDevices(pod *corev1.Pod) bool {
	return (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "") &&
		pod.Status.StartTime == nil && pod.DeletionTimestamp == nil
}

// pendingPods returns the Pods that wait for devices, in the order in which the kubelet
// admits them, as far as it is known: Pods reach it one by one as they are bound, but
// those that arrive together, after a restart, it admits in the order of their creation.
func pendingPods(pods []*corev1.Pod) []*corev1.Pod {
	waiting := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !awaitsDevices(pod) })
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

// pendingAllocationsOf returns a Pod's allocations of a resource, in the order in which
// the kubelet makes them. A choice that does not match the container's request is
// ignored: the kubelet will never ask for it. Shares are of one GPU.
func pendingAllocationsOf(pod *corev1.Pod, resource string, shares bool) []PendingAllocation {
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		assignment = &inventory.Assignment{} // an unreadable annotation counts as no choice
	}
	var pending []PendingAllocation
	add := func(container *corev1.Container, reusable bool) {
		limit := container.Resources.Limits[corev1.ResourceName(resource)]
		p := PendingAllocation{
			Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
			Container: container.Name, Size: int(limit.Value()), Share: shares, Reusable: reusable,
		}
		ids := share.GPUs(assignment.Containers[container.Name][resource])
		if len(ids) == p.choiceSize() {
			p.IDs = ids
		}
		if p.Size > 0 {
			pending = append(pending, p)
		}
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i], !podfacts.IsSidecar(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	chooseForInitContainers(pending)
	return pending
}

// choiceSize returns the number of IDs in a valid choice.
func (p *PendingAllocation) choiceSize() int {
	if p.Share {
		return min(p.Size, 1)
	}
	return p.Size
}

// chooseForInitContainers gives init containers without a choice the devices that were
// chosen for the containers after them. Those reuse the devices of the init containers
// in any case, so otherwise they could not get what was chosen for them.
func chooseForInitContainers(pending []PendingAllocation) {
	for i := range pending {
		p := &pending[i]
		if !p.Reusable || len(p.IDs) > 0 {
			continue
		}
		var chosen []string
		for _, later := range pending[i+1:] {
			if !later.Reusable {
				chosen = append(chosen, later.IDs...)
			}
		}
		if size := p.choiceSize(); len(chosen) >= size {
			p.IDs = slices.Sorted(slices.Values(chosen[:size]))
		}
	}
}

// isMetBy reports whether devices are exactly the chosen ones.
func (p *PendingAllocation) isMetBy(ids []string) bool {
	return len(ids) > 0 && len(ids) == p.Size && slices.Equal(p.IDs, share.GPUs(ids))
}

// fits reports whether the chosen devices are available and include those that the
// request must include.
func (p *PendingAllocation) fits(r *request) bool {
	foreign := func(id string) bool { return !slices.Contains(p.IDs, share.GPU(id)) }
	return len(p.IDs) > 0 && len(r.of(p.IDs)) >= p.Size && !slices.ContainsFunc(r.must, foreign)
}
