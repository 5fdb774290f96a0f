// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Selector is a Pod's node selector, required node affinity and tolerations, except what a
// placement.Shape has fields for, and the name under which it asks for GPUs.
type Selector struct {
	key string
	// keys are the node labels that it refers to, sorted; metadata.name stands for the node's name.
	keys     []string
	uses     []labelUse
	affinity nodeaffinity.RequiredNodeAffinity
	// tolerations are the Pod's.
	tolerations []corev1.Toleration
	// resource is the name under which GPUs are asked for; empty without GPUs.
	resource corev1.ResourceName
}

var _ placement.Selector = (*Selector)(nil)

// criteria identify a Selector.
type criteria struct {
	NodeSelector map[string]string         `json:"nodeSelector,omitempty"`
	Terms        []corev1.NodeSelectorTerm `json:"terms,omitempty"`
	Tolerations  []corev1.Toleration       `json:"tolerations,omitempty"`
	Resource     corev1.ResourceName       `json:"resource,omitempty"`
}

func newSelector(c criteria) (*Selector, error) {
	key, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("node selector: %w", err)
	}
	s := &Selector{key: string(key), uses: c.labelUses(), tolerations: c.Tolerations, resource: c.Resource, affinity: nodeaffinity.GetRequiredNodeAffinity(c.pod())}
	for i := range s.uses {
		s.keys = append(s.keys, s.uses[i].key)
	}
	slices.Sort(s.keys)
	s.keys = slices.Compact(s.keys)
	return s, nil
}

// withoutGPUs begins the key of a selector that has lost its resource.
const withoutGPUs = "without GPUs:"

// withoutResource returns the selector for a Pod that does not ask for GPUs.
func (s *Selector) withoutResource() *Selector {
	other := *s
	other.resource, other.key = "", withoutGPUs+s.key
	return &other
}

// pod returns a Pod that has only the criteria.
func (c *criteria) pod() *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: c.NodeSelector}}
	if len(c.Terms) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: c.Terms},
		}}
	}
	return pod
}

// labelUses returns what the criteria ask about labels and fields, in the same order for the same criteria.
func (c *criteria) labelUses() (uses []labelUse) {
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		uses = append(uses, labelUse{key: key, values: []string{c.NodeSelector[key]}})
	}
	for i := range c.Terms {
		uses = append(uses, usesOf(&c.Terms[i])...)
	}
	return uses
}

// Key implements placement.Selector.
func (s *Selector) Key() string { return s.key }

// String is for messages; empty for a Pod that only has tolerations.
func (s *Selector) String() string {
	var parts []string
	if s.resource == v1.ResourceNVIDIAGPU {
		parts = append(parts, "asked for as "+string(s.resource))
	}
	if s.resource == ResourceClaims {
		parts = append(parts, "asked for with resource claims")
	}
	if len(s.keys) > 0 {
		parts = append(parts, "on nodes selected by "+strings.Join(s.keys, ", "))
	}
	return strings.Join(parts, ", ")
}

// Offers returns the names under which nodes with some traits offer GPUs.
func (s *Selector) Offers(text string) []string {
	t, err := parseTraits(text)
	if err != nil {
		return nil // not ours
	}
	if len(t.Offers) == 0 {
		return []string{string(v1.ResourceGPU)}
	}
	names := make([]string, len(t.Offers))
	for i, name := range t.Offers {
		names[i] = string(name)
	}
	return names
}

// GPUResource returns the name under which GPUs are asked for; empty without GPUs.
func (s *Selector) GPUResource() string { return string(s.resource) }

// Admits implements placement.Selector.
func (s *Selector) Admits(text string) placement.Reason {
	t, err := parseTraits(text)
	if err != nil {
		return placement.OtherLabels // not ours
	}
	node := t.node()
	if matches, err := s.affinity.Match(node); err != nil || !matches {
		return placement.OtherLabels
	}
	keepsOff := func(taint *corev1.Taint) bool { return !isClosing(taint) }
	if _, untolerated := schedulingv1.FindMatchingUntoleratedTaint(klog.Background(), t.Taints, s.tolerations, keepsOff, false); untolerated {
		return placement.Tainted
	}
	if !t.offers(s.resource) {
		return placement.NotOffered
	}
	closing, closed := schedulingv1.FindMatchingUntoleratedTaint(klog.Background(), t.Taints, s.tolerations, isClosing, false)
	switch {
	case !closed:
		return placement.Fits
	case closing.Key == corev1.TaintNodeUnschedulable:
		return placement.NodeCordoned
	default:
		return placement.NodeNotReady
	}
}

// JudgesClosed marks the Selector as one that knows from the traits to whom nodes are closed.
func (s *Selector) JudgesClosed() {}

// SelectorOf returns the Selector with a key: one that was made by Selector.Key.
func SelectorOf(key string) (*Selector, error) {
	text, without := strings.CutPrefix(key, withoutGPUs)
	var c criteria
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("node selector: %w", err)
	}
	s, err := newSelector(c)
	if err != nil {
		return nil, err
	}
	if s.key = text; without {
		s = s.withoutResource()
	}
	return s, nil
}

// PreferenceOf returns the Preference with a key: one that was made by Preference.Key.
func PreferenceOf(key string) (*Preference, error) {
	var w wishes
	if err := json.Unmarshal([]byte(key), &w); err != nil {
		return nil, fmt.Errorf("preferred node affinity: %w", err)
	}
	return w.preference(key), nil
}

// preference returns the Preference with these wishes, and their key.
func (w *wishes) preference(key string) *Preference {
	p := &Preference{key: key, tolerations: w.Tolerations}
	for i := range w.Terms {
		p.uses = append(p.uses, usesOf(&w.Terms[i].Preference)...)
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(w.Terms)
	if p.terms = terms; err != nil {
		return p // the API server accepts no such terms; none counts
	}
	for i := range w.Terms {
		p.total += int64(w.Terms[i].Weight)
	}
	return p
}
