// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
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

// Track makes the view include the labels and resources that a shape refers to in its
// nodes. It reports whether it did so already: otherwise nodes have to be converted again,
// all of them after all have been observed.
func (v *NodeView) Track(shape *placement.Shape) (known bool) {
	known = true
	for _, key := range labelKeys(shape) {
		if v.Keys == nil {
			v.Keys = map[string]bool{}
		}
		known = known && v.Keys[key]
		v.Keys[key] = true
	}
	if selector, ours := shape.Selector.(*Selector); ours && selector.resource == v1.ResourceNVIDIAGPU {
		known = v.trackResource(string(selector.resource)) && known
	}
	for _, other := range shape.Others {
		known = v.trackResource(other.Resource) && known
	}
	return known
}

// labelKeys returns the node labels that a shape refers to.
func labelKeys(shape *placement.Shape) []string {
	var keys []string
	if selector, ours := shape.Selector.(*Selector); ours {
		keys = append(keys, selector.LabelKeys()...)
	}
	if preference, ours := shape.Preference.(*Preference); ours {
		keys = append(keys, preference.LabelKeys()...)
	}
	return keys
}

// trackResource reports whether a resource is tracked already, and tracks it.
func (v *NodeView) trackResource(name string) (known bool) {
	if _, tracked := v.Resources[name]; tracked {
		return true
	}
	if v.Resources == nil {
		v.Resources = map[string]bool{}
	}
	v.Resources[name] = mustBeListed(name)
	return false
}

// TrackSlices makes the view include all MIG slices that nodes list, whoever gives them out, even if
// no shape asks for them: for views of which people ask how much is free.
func (v *NodeView) TrackSlices(nodes []*corev1.Node) {
	for _, node := range nodes {
		for name := range node.Status.Allocatable {
			if _, ok := v1.SliceProfile(name); ok {
				v.trackResource(string(name))
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

// Observe notes which of the tracked resources a node lists. It reports whether that was
// known already: otherwise all nodes have to be converted again.
func (v *NodeView) Observe(node *corev1.Node) (known bool) {
	known = true
	for name, listed := range v.Resources {
		if !listed && lists(node, corev1.ResourceName(name)) {
			v.Resources[name], known = true, false
		}
	}
	return known
}

// lists reports whether a node lists a resource. The kubelet goes on listing none of
// nvidia.com/gpu when a DRA driver has replaced NVIDIA's device plugin.
func lists(node *corev1.Node, name corev1.ResourceName) bool {
	amount, listed := node.Status.Allocatable[name]
	return listed && (name != v1.ResourceNVIDIAGPU || !amount.IsZero())
}

// Unlisted reports whether there are tracked resources that no observed node lists.
func (v *NodeView) Unlisted() bool {
	for _, listed := range v.Resources {
		if !listed {
			return true
		}
	}
	return false
}

// others returns a node's amounts of the tracked resources.
func (v *NodeView) others(node *corev1.Node) placement.Amounts {
	if len(v.Resources) == 0 {
		return nil
	}
	values := make(map[string]int64, len(v.Resources))
	for name, listed := range v.Resources {
		if listed {
			values[name] = wholeUnits(node.Status.Allocatable[corev1.ResourceName(name)])
		} else {
			values[name] = placement.MaxAmount // kube-scheduler decides
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
