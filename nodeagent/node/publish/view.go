// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// ownLabels are the labels of a Node that belong to the agent, besides those about MIG slices.
var ownLabels = []string{
	v1.LabelGPUModel, v1.LabelGPUCount, v1.LabelGPUMemory, v1.LabelGPUDriver, v1.LabelGPUCUDA,
	v1.LabelGPUComputeCapability, v1.LabelGPUHealth, v1.LabelGPUFreeMemory,
}

// View caches the metadata of one Node.
type View struct {
	mu      sync.Mutex
	node    *metav1.ObjectMeta
	changed chan struct{}
}

// NewView returns a View without a Node.
func NewView() *View { return &View{changed: make(chan struct{})} }

// Node returns the Node's metadata, or nil if there is none. It must not be modified.
func (v *View) Node() *metav1.ObjectMeta {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.node
}

// Changed returns a channel that is closed when the agent's content on the Node changes, or
// whether the driver is paused. To miss nothing, call it before Node.
func (v *View) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// See updates the Node from a watch or from the result of a write, which may precede its
// watch event; nil if the Node has been deleted. Older versions are ignored.
func (v *View) See(node *metav1.ObjectMeta) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.node != nil && node != nil && older(node, v.node) {
		return
	}
	changed := differ(v.node, node)
	v.node = node
	if changed {
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

// older reports whether a is an older version of the same Node than b.
func older(a, b *metav1.ObjectMeta) bool {
	if a.UID != b.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

func differ(a, b *metav1.ObjectMeta) bool {
	if a == nil || b == nil {
		return a != b
	}
	before, after := contentOf(a), contentOf(b)
	return a.UID != b.UID || !before.equal(&after) || (labels.Paused(a.Labels) == nil) != (labels.Paused(b.Labels) == nil)
}

// contentOf returns the agent's content on a Node.
func contentOf(node *metav1.ObjectMeta) Content {
	content := Content{
		Labels: map[string]string{}, Inventory: node.Annotations[inventory.Annotation], ProbeURL: node.Annotations[endpoints.AnnotationProbeURL],
	}
	maps.Copy(content.Labels, node.Labels)
	maps.DeleteFunc(content.Labels, func(name, _ string) bool { return !slices.Contains(ownLabels, name) && !v1.IsMIGLabel(name) })
	return content
}
