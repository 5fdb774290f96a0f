// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// ResourceClaims is the name under which a Shape asks for GPUs that its Pod asks for with
// resource claims (DRA). It is not the name of an extended resource.
const ResourceClaims corev1.ResourceName = "resource.k8s.io/claims"

// PublishedGPU is a whole GPU that a DRA driver publishes as a device.
type PublishedGPU struct {
	UUID string
	// Model is its model as a value of the label falldio.com/gpu; empty if unknown.
	Model     string
	MemoryMiB int64 // 0 if unknown
	// NUMANode is the NUMA node that it is attached to, or -1.
	NUMANode int
	// Tainted is true if claims don't get it, unless they tolerate that.
	Tainted bool
}

// OverDRA reports whether a node's GPUs are given out by the DRA driver of this project. The
// node's label says so, once the device plugin has left: the kubelet offers none of its GPUs.
func OverDRA(node *corev1.Node) bool {
	return node.Labels[v1.LabelGPUAllocation] == v1.AllocationDRA && !offersGPUs(node)
}

// offers returns the names under which a node offers GPUs; none if they are only ours, from
// the device plugin, as on most nodes.
func (v *NodeView) offers(node *corev1.Node) []corev1.ResourceName {
	names, over, published := foreignOffers(node), OverDRA(node), len(v.Published[node.Name]) > 0
	if !over && !published {
		return names
	}
	if names == nil {
		for _, name := range []corev1.ResourceName{v1.ResourceGPU, v1.ResourceGPUPercent} {
			if quantity(node.Status.Allocatable, name) > 0 || over && name == v1.ResourceGPU {
				names = append(names, name)
			}
		}
	}
	if published {
		names = append(names, ResourceClaims)
	}
	return names
}

// publishedGPUs returns the GPUs of a node that has no agent and no device plugin, but a DRA
// driver. NVLink groups are not known of them.
func publishedGPUs(published []PublishedGPU, cordon inventory.Cordon) ([]placement.GPU, Cards) {
	published = published[:min(len(published), placement.MaxCards)]
	gpus := make([]placement.GPU, len(published))
	uuids := make([]string, len(published))
	for i := range published {
		device := &published[i]
		gpus[i] = placement.GPU{Memory: device.MemoryMiB, Group: -1, NUMA: device.NUMANode, Broken: device.Tainted || cordon.HasUUID(device.UUID)}
		uuids[i] = device.UUID
	}
	return gpus, newCards(uuids)
}

// publishedModel returns the model of GPUs, if all are of the same.
func publishedModel(published []PublishedGPU) string {
	if len(published) == 0 || slices.ContainsFunc(published, func(other PublishedGPU) bool { return other.Model != published[0].Model }) {
		return ""
	}
	return published[0].Model
}

// mayAllocate returns whether containers can get a GPU that the agent lists: the kubelet has
// registered GPUs, or a DRA driver publishes this one.
func (v *NodeView) mayAllocate(node *corev1.Node) func(gpu *inventory.GPU) bool {
	published, known := v.Published[node.Name], v.Published != nil
	switch {
	case offersGPUs(node):
		return func(*inventory.GPU) bool { return true }
	case !known:
		over := OverDRA(node)
		return func(*inventory.GPU) bool { return over }
	default:
		return func(gpu *inventory.GPU) bool {
			return slices.ContainsFunc(published, func(other PublishedGPU) bool { return other.UUID == gpu.UUID })
		}
	}
}

// ShapeOfClaims returns what a Pod needs that asks for whole GPUs with resource claims, and for
// none as an extended resource. An error names a request that no node can satisfy.
func ShapeOfClaims(pod *corev1.Pod, gpus int) (placement.Shape, error) {
	shape := demand(Requests(pod))
	shape.GPUs = gpus
	return shape, setNodeConstraints(&shape, ResourceClaims, pod)
}
