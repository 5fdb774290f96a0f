// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeNameKey stands for the node's name among the keys: node affinity may match
// it as a field.
const NodeNameKey = "metadata.name"

// traits are the properties of a node that selectors refer to, except those that the engine
// models itself.
type traits struct {
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
	// Soft are the taints of effect PreferNoSchedule, which only a Preference looks at.
	Soft []corev1.Taint `json:"soft,omitempty"`
	// Offers are the names under which the node offers GPUs; none if they are only ours, as
	// on most nodes.
	Offers []corev1.ResourceName `json:"offers,omitempty"`
}

// parseTraits returns traits from their text.
func parseTraits(text string) (t traits, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}

// traits returns a node's traits as text. It is equal for nodes that selectors can't
// distinguish.
func (v *NodeView) traits(node *corev1.Node) string {
	t := traits{}
	if label := v.labels[NodeNameKey]; label != nil { // a node without a name would match every name
		t.Name = label.told(node.Name)
	}
	for key, value := range node.Labels {
		if label := v.labels[key]; label != nil {
			if t.Labels == nil {
				t.Labels = map[string]string{}
			}
			t.Labels[key] = label.told(value)
		}
	}
	t.setTaints(Taints(node))
	t.Offers = v.offers(node)
	if t.Name == "" && t.Labels == nil && t.Taints == nil && t.Soft == nil && t.Offers == nil {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil {
		return "" // strings can always be encoded
	}
	return string(text)
}

// setTaints sets the taints, in a canonical order.
func (t *traits) setTaints(taints []corev1.Taint) {
	for _, taint := range taints {
		plain := corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			t.Soft = append(t.Soft, plain)
		} else {
			t.Taints = append(t.Taints, plain)
		}
	}
	for _, list := range [][]corev1.Taint{t.Taints, t.Soft} {
		slices.SortFunc(list, func(a, b corev1.Taint) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
		})
	}
}

// node returns a Node that has only the traits.
func (t *traits) node() *corev1.Node {
	node := &corev1.Node{}
	node.Name, node.Labels, node.Spec.Taints = t.Name, t.Labels, t.Taints
	return node
}
