// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Hints are the events for which plugins would have a Pod that they refused queued again,
// by plugin.
type Hints map[string][]fwk.ClusterEventWithHint

// HintsOf collects what the plugins of a profile register.
func HintsOf(ctx context.Context, extensions []fwk.EnqueueExtensions) (Hints, error) {
	hints := Hints{}
	for _, extension := range extensions {
		events, err := extension.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", extension.Name(), err)
		}
		hints[extension.Name()] = events
	}
	if events, used := hints[names.InterPodAffinity]; used {
		hints[names.InterPodAffinity] = append(slices.Clone(events), namespaceLabels)
	}
	return hints, nil
}

// Namespace is a kind of object that InterPodAffinity looks at, since terms select namespaces by labels. It registers
// no events of it.
const Namespace fwk.EventResource = "Namespace"

var namespaceLabels = fwk.ClusterEventWithHint{ //nolint:gochecknoglobals // a constant
	Event: fwk.ClusterEvent{Resource: Namespace, ActionType: fwk.Add | fwk.Update},
	QueueingHintFn: func(_ klog.Logger, _ *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
		was, isUpdate := before.(*corev1.Namespace)
		is, isNamespace := after.(*corev1.Namespace)
		if isUpdate && isNamespace && maps.Equal(was.Labels, is.Labels) {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	},
}

// Add adds the hints of another profile. A plugin that both have has the same ones.
func (h Hints) Add(other Hints) {
	for plugin, events := range other {
		if _, known := h[plugin]; !known {
			h[plugin] = events
		}
	}
}

// Kinds returns the kinds of objects, other than Pods and Nodes, that any plugin looks at.
func (h Hints) Kinds() sets.Set[fwk.EventResource] {
	all := sets.New[fwk.EventResource]()
	for _, kinds := range h.looksAt() {
		all = all.Union(kinds)
	}
	return all
}

// looksAt returns the kinds of objects, other than Pods and Nodes, that each plugin looks
// at.
func (h Hints) looksAt() map[string]sets.Set[fwk.EventResource] {
	kinds := map[string]sets.Set[fwk.EventResource]{}
	for plugin, events := range h {
		kinds[plugin] = sets.New[fwk.EventResource]()
		for _, event := range events {
			if kind := event.Event.Resource; !isPod(kind) && kind != fwk.Node {
				kinds[plugin].Insert(kind)
			}
		}
	}
	return kinds
}

// MayHelp reports whether a plugin would have a Pod that it refused queued again because an
// object of a kind was added (before is nil), updated or deleted (after is nil).
func (h Hints) MayHelp(logger klog.Logger, plugin string, pod *corev1.Pod, kind fwk.EventResource, before, after any) bool {
	for _, event := range h[plugin] {
		if !concerns(event.Event.Resource, kind) || event.Event.ActionType&actionOf(before, after) == 0 {
			continue
		}
		if event.QueueingHintFn == nil {
			return true
		}
		if hint, err := event.QueueingHintFn(logger, pod, before, after); err != nil || hint == fwk.Queue {
			return true
		}
	}
	return false
}

func actionOf(before, after any) fwk.ActionType {
	switch {
	case before == nil:
		return fwk.Add
	case after == nil:
		return fwk.Delete
	default:
		return fwk.Update
	}
}

// concerns reports whether what is registered for a kind of object is for events of another.
func concerns(registered, kind fwk.EventResource) bool {
	return registered == kind || registered == fwk.WildCard || isPod(registered) && kind == fwk.Pod
}

// isPod reports whether events are about Pods other than the one that was refused.
func isPod(kind fwk.EventResource) bool {
	return kind == fwk.Pod || kind == fwk.AssignedPod || kind == fwk.UnscheduledPod || kind == fwk.TargetPod
}

// Ignore drops the hints of all plugins that look at a kind of object that nobody watches.
func (h Hints) Ignore(kind fwk.EventResource) {
	for plugin, kinds := range h.looksAt() {
		if kinds.Has(kind) {
			delete(h, plugin)
		}
	}
}
