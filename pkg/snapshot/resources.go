// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Others returns the resources in a list that the engine has no fields for: extended
// resources, ephemeral storage, huge pages.
func Others(list corev1.ResourceList) placement.Amounts {
	var values map[string]int64
	for name, amount := range list {
		if !isOther(name) {
			continue
		}
		if values == nil {
			values = map[string]int64{}
		}
		values[string(name)] = amount.Value()
	}
	return placement.NewAmounts(values)
}

func isOther(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, v1.ResourceGPU, v1.ResourceGPUPercent, v1.ResourceNVIDIAGPU:
		return false
	default:
		return true
	}
}

// TrackSlices makes the view include all MIG slices that nodes list, by whichever device plugin, even if
// no shape asks for them: for views of which people ask how much is free.
func (v *NodeView) TrackSlices(nodes []*corev1.Node) {
	for _, node := range nodes {
		for name := range node.Status.Allocatable {
			if _, ok := v1.SliceProfile(name); ok {
				v.trackResource(string(name), &Tracked{})
			}
		}
	}
}

// mustBeListed reports whether only nodes that list a resource can have it. Extended
// resources that no node lists may be provided by resource claims, which kube-scheduler
// creates for them; our MIG slices, like our GPUs, are not.
func mustBeListed(name string) bool {
	return !strings.Contains(name, "/") || ofOurSlices(corev1.ResourceName(name))
}

// observe notes which of the tracked resources a node lists.
func (v *NodeView) observe(node *corev1.Node) {
	for name, tracked := range v.resources {
		tracked.listed = tracked.listed || Lists(node, name)
	}
}

// Lists reports whether a node lists a resource. The kubelet goes on listing none of
// nvidia.com/gpu when a DRA driver has replaced NVIDIA's device plugin.
func Lists(node *corev1.Node, name string) bool {
	amount, listed := node.Status.Allocatable[corev1.ResourceName(name)]
	return listed && (name != string(v1.ResourceNVIDIAGPU) || !amount.IsZero())
}

// Counted returns a shape without the resources that are left to kube-scheduler, as no node lists them: it is for views
// of nodes that are Exact.
func Counted(shape placement.Shape, listed func(resource string) bool) placement.Shape {
	left := func(other placement.Amount) bool { return !mustBeListed(other.Resource) && !listed(other.Resource) }
	if slices.ContainsFunc(shape.Others, left) {
		shape.Others = slices.DeleteFunc(slices.Clone(shape.Others), left)
	}
	return shape
}

// others returns a node's amounts of the tracked resources.
func (v *NodeView) others(node *corev1.Node) placement.Amounts {
	if len(v.resources) == 0 {
		return nil
	}
	values := map[string]int64{}
	for name, amount := range node.Status.Allocatable {
		if v.resources[string(name)] != nil {
			values[string(name)] = wholeUnits(amount)
		}
	}
	if !v.Exact {
		for name, tracked := range v.resources {
			if !tracked.listed {
				values[name] = placement.MaxAmount // kube-scheduler decides
			}
		}
	}
	return placement.NewAmounts(values)
}

// wholeUnits returns a quantity rounded down.
func wholeUnits(amount resource.Quantity) int64 {
	value := amount.Value() // is rounded up
	if amount.CmpInt64(value) < 0 {
		value--
	}
	return value
}
