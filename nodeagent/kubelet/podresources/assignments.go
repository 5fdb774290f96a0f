// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Assignments returns what each Pod has of some resources. Pods that have
// nothing of them are not in it, nor are two Pods of the same name, one of which
// is on its way out: the kubelet does not say which is which. Of shares of a GPU
// an Assignment has the GPU alone, once.
func Assignments(allocations []Allocation, resources []string) map[types.NamespacedName]inventory.Assignment {
	type place struct {
		pod                 types.NamespacedName
		container, resource string
	}
	seen := map[place]bool{}
	ambiguous := map[types.NamespacedName]bool{}
	assignments := map[types.NamespacedName]inventory.Assignment{}
	for _, a := range allocations {
		if !slices.Contains(resources, a.Resource) || len(a.DeviceIDs) == 0 {
			continue
		}
		pod := types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}
		here := place{pod, a.Container, a.Resource}
		ambiguous[pod] = ambiguous[pod] || seen[here]
		seen[here] = true
		assignment := assignments[pod]
		assignment.Version = inventory.Version
		assignment.Add(a.Container, a.Resource, share.GPUs(a.DeviceIDs)...)
		assignments[pod] = assignment
	}
	for pod, twice := range ambiguous {
		if twice {
			delete(assignments, pod)
		}
	}
	return assignments
}

// DeviceIDs returns the devices of a resource that containers have, sorted.
func DeviceIDs(allocations []Allocation, resource string) []string {
	var ids []string
	for _, a := range allocations {
		if a.Resource == resource {
			ids = append(ids, a.DeviceIDs...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
