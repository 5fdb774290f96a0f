// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Assignments returns the devices of some resources that each Pod has. It omits Pods
// without any, and two Pods of the same name, one of which is terminating: the kubelet does
// not distinguish them. For shares of a GPU an Assignment has the GPU alone, once.
func Assignments(allocations []Allocation, resources []string) map[types.NamespacedName]inventory.Assignment {
	type key struct {
		pod                 types.NamespacedName
		container, resource string
	}
	seen := map[key]bool{}
	ambiguous := map[types.NamespacedName]bool{}
	assignments := map[types.NamespacedName]inventory.Assignment{}
	for _, a := range allocations {
		if !slices.Contains(resources, a.Resource) || len(a.DeviceIDs) == 0 {
			continue
		}
		pod := types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}
		k := key{pod, a.Container, a.Resource}
		ambiguous[pod] = ambiguous[pod] || seen[k]
		seen[k] = true
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
