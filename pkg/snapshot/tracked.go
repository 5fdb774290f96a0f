// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Tracked is a part of what a NodeView tracks.
type Tracked struct {
	// Labels are values of nodes' labels, by key; nil stands for all values of a key. The key metadata.name
	// stands for the names of nodes.
	Labels map[string]map[string]bool
	// Resources are names of resources.
	Resources map[string]bool
}

// IsEmpty reports whether it is nothing.
func (t *Tracked) IsEmpty() bool { return len(t.Labels) == 0 && len(t.Resources) == 0 }

// On reports whether a node has any of the labels, or lists any of the resources.
func (t *Tracked) On(node *corev1.Node) bool {
	for key, values := range t.Labels {
		value, labelled := node.Labels[key]
		if key == NodeNameKey {
			value, labelled = node.Name, true
		}
		if labelled && (values == nil || values[value]) {
			return true
		}
	}
	for name := range t.Resources {
		if Lists(node, name) {
			return true
		}
	}
	return false
}

func (t *Tracked) addAll(key string) {
	if t.Labels == nil {
		t.Labels = map[string]map[string]bool{}
	}
	t.Labels[key] = nil
}

func (t *Tracked) addValue(key, value string) {
	values, known := t.Labels[key]
	switch {
	case known && values == nil:
		return // all
	case !known:
		t.addAll(key)
		values = map[string]bool{}
		t.Labels[key] = values
	}
	values[value] = true
}

func (t *Tracked) addResource(name string) {
	if t.Resources == nil {
		t.Resources = map[string]bool{}
	}
	t.Resources[name] = true
}

// trackedLabel is what shapes ask about a label. Each number is that of the sweep before somebody asked last, plus 1.
type trackedLabel struct {
	// used is whether nodes have the label, all whether their values have to be told apart.
	used, all uint64
	// values are those that are told apart; all others count as one.
	values map[string]uint64
}

// otherValue stands for all values of a label that no shape names.
const otherValue = "\x00"

// told returns a value of the label, or otherValue if nobody tells it from others.
func (l *trackedLabel) told(value string) string {
	if l.all > 0 || l.values[value] > 0 {
		return value
	}
	return otherValue
}

// trackedResource is a resource that shapes ask for.
type trackedResource struct {
	used uint64
	// listed is false for an extended resource that no node lists: it is not counted.
	listed bool
}

// labelUse is what a selector or preference asks about a label.
type labelUse struct {
	key string
	// all is true if it compares the values as numbers; else it compares them with these.
	all    bool
	values []string
}

// usesOf returns what a term asks about labels and fields.
func usesOf(term *corev1.NodeSelectorTerm) []labelUse {
	uses := make([]labelUse, 0, len(term.MatchExpressions)+len(term.MatchFields))
	for _, list := range [][]corev1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
		for i := range list {
			use := labelUse{key: list[i].Key}
			switch list[i].Operator {
			case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
				use.values = list[i].Values
			default:
				use.all = true
			}
			uses = append(uses, use)
		}
	}
	return uses
}

// Track makes the view tell nodes apart by what a shape asks about their labels, and include the resources that it asks
// for. It returns what of that is new: nodes that have any of it have to be converted again, after all have been
// observed.
func (v *NodeView) Track(shape *placement.Shape) (news Tracked) {
	v.track(shape, &news, false)
	return news
}

// TrackDemand is Track for a shape of which no Pod waits at present. The names of nodes in it don't count: they would
// make nodes different that others take for equal.
func (v *NodeView) TrackDemand(shape *placement.Shape) (news Tracked) {
	v.track(shape, &news, true)
	return news
}

func (v *NodeView) track(shape *placement.Shape, news *Tracked, withoutNames bool) {
	if selector, ours := shape.Selector.(*Selector); ours {
		v.trackLabels(selector, selector.uses, news, withoutNames)
		if selector.resource == v1.ResourceNVIDIAGPU {
			v.trackResource(string(selector.resource), news)
		}
	}
	if preference, ours := shape.Preference.(*Preference); ours {
		v.trackLabels(preference, preference.uses, news, withoutNames)
	}
	for _, other := range shape.Others {
		v.trackResource(other.Resource, news)
	}
}

// trackLabels tracks the labels that a selector or preference uses, once between two sweeps.
func (v *NodeView) trackLabels(user any, uses []labelUse, news *Tracked, withoutNames bool) {
	if whole, known := v.users[user]; known && (whole || withoutNames) {
		return
	}
	if v.users == nil {
		v.users = map[any]bool{}
	}
	v.users[user] = !withoutNames
	for i := range uses {
		if !withoutNames || !isNodeName(uses[i].key) {
			v.trackLabel(&uses[i], news)
		}
	}
}

// isNodeName reports whether each node has a value of its own of a label or field.
func isNodeName(key string) bool { return key == NodeNameKey || key == corev1.LabelHostname }

func (v *NodeView) trackLabel(use *labelUse, news *Tracked) {
	now := v.sweeps + 1
	label := v.labels[use.key]
	if label == nil {
		if v.labels == nil {
			v.labels = map[string]*trackedLabel{}
		}
		label = &trackedLabel{}
		v.labels[use.key] = label
		news.addAll(use.key)
	}
	label.used = now
	if use.all {
		if label.all == 0 {
			news.addAll(use.key)
		}
		label.all = now
	}
	for _, value := range use.values {
		if label.values == nil {
			label.values = map[string]uint64{}
		}
		if label.values[value] == 0 {
			news.addValue(use.key, value)
		}
		label.values[value] = now
	}
}

// trackResource tracks a resource.
func (v *NodeView) trackResource(name string, news *Tracked) {
	tracked := v.resources[name]
	if tracked == nil {
		if v.resources == nil {
			v.resources = map[string]*trackedResource{}
		}
		tracked = &trackedResource{listed: v.Exact || mustBeListed(name)}
		v.resources[name] = tracked
		news.addResource(name)
	}
	tracked.used = v.sweeps + 1
}

// Sweep stops tracking what no shape has asked about since the last call, and returns it.
func (v *NodeView) Sweep() (gone Tracked) {
	now := v.sweeps + 1
	maps.DeleteFunc(v.labels, func(key string, label *trackedLabel) bool {
		if label.used < now {
			gone.addAll(key)
			return true
		}
		if label.all > 0 && label.all < now {
			label.all = 0
			gone.addAll(key)
		}
		maps.DeleteFunc(label.values, func(value string, used uint64) bool {
			if used == now {
				return false
			}
			gone.addValue(key, value)
			return true
		})
		return false
	})
	maps.DeleteFunc(v.resources, func(name string, tracked *trackedResource) bool {
		if tracked.used == now {
			return false
		}
		gone.addResource(name)
		return true
	})
	v.sweeps = now
	v.users = nil
	return gone
}

// Size returns how many labels, values of labels and resources are tracked.
func (v *NodeView) Size() int {
	size := len(v.labels) + len(v.resources)
	for _, label := range v.labels {
		size += len(label.values)
	}
	return size
}

// Clone returns a copy.
func (v *NodeView) Clone() NodeView {
	clone := *v
	clone.users, clone.Published = nil, maps.Clone(v.Published)
	clone.labels, clone.resources = make(map[string]*trackedLabel, len(v.labels)), make(map[string]*trackedResource, len(v.resources))
	for key, label := range v.labels {
		clone.labels[key] = &trackedLabel{used: label.used, all: label.all, values: maps.Clone(label.values)}
	}
	for name, tracked := range v.resources {
		resource := *tracked
		clone.resources[name] = &resource
	}
	return clone
}
