// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Preference is a Pod's preferred node affinity, and that it rather keeps off nodes with
// taints of effect PreferNoSchedule that it does not tolerate. Every Pod has one.
type Preference struct {
	key   string
	uses  []labelUse
	terms *nodeaffinity.PreferredSchedulingTerms
	// total is the sum of the terms' weights.
	total       int64
	tolerations []corev1.Toleration
}

var _ placement.Preference = (*Preference)(nil)

// The weights of both parts are those of kube-scheduler's default profile.
const (
	affinityWeight = 2
	taintWeight    = 3
)

// maxScore is the best score of a node.
const maxScore = 100

// wishes identify a Preference.
type wishes struct {
	Terms       []corev1.PreferredSchedulingTerm `json:"terms,omitempty"`
	Tolerations []corev1.Toleration              `json:"tolerations,omitempty"`
}

func newPreference(pod *corev1.Pod) (*Preference, error) {
	w := wishes{Terms: preferredTerms(pod), Tolerations: tolerationsOf(pod, func(effect corev1.TaintEffect) bool {
		return effect == corev1.TaintEffectPreferNoSchedule || effect == ""
	})}
	key, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("preferred node affinity: %w", err)
	}
	return w.preference(string(key)), nil
}

// preferredTerms returns the terms that score nodes: not those about names of nodes, which as
// labels would make all nodes different. See AvoidedNodes.
func preferredTerms(pod *corev1.Pod) []corev1.PreferredSchedulingTerm {
	var list []corev1.PreferredSchedulingTerm
	for _, term := range nodeAffinity(pod).PreferredDuringSchedulingIgnoredDuringExecution {
		uses := usesOf(&term.Preference)
		named := slices.ContainsFunc(uses, func(use labelUse) bool { return isNodeName(use.key) })
		if term.Weight > 0 && len(uses) > 0 && !named {
			list = append(list, term)
		}
	}
	return list
}

// AvoidedNodes returns the names of the nodes that a Pod uses only if it finds room on no others:
// those that a preferred term about nothing but names excludes.
func AvoidedNodes(pod *corev1.Pod) []string {
	var names []string
	for _, term := range nodeAffinity(pod).PreferredDuringSchedulingIgnoredDuringExecution {
		rules, rest := namesOfTerm(term.Preference)
		if len(rest) > 0 || slices.ContainsFunc(rules, func(rule placement.NodeRule) bool { return rule.Hostnames || !rule.Except }) {
			continue
		}
		for i := range rules {
			names = append(names, rules[i].Names...)
		}
	}
	return names
}

// Key implements placement.Preference.
func (p *Preference) Key() string { return p.key }

// Score implements placement.Preference.
func (p *Preference) Score(text string) float64 {
	t, err := parseTraits(text)
	if err != nil {
		return 0 // not ours
	}
	return (affinityWeight*p.affinityScore(&t) + taintWeight*p.taintScore(&t)) / (affinityWeight + taintWeight)
}

// affinityScore returns which part of the terms' weights a node matches.
func (p *Preference) affinityScore(t *traits) float64 {
	if p.total == 0 {
		return maxScore
	}
	return maxScore * float64(p.terms.Score(t.node())) / float64(p.total)
}

// taintScore falls with the number of taints that are not tolerated. A single one costs more
// than all of the affinity is worth, as it does for kube-scheduler where other nodes have none.
func (p *Preference) taintScore(t *traits) float64 {
	left := float64(maxScore)
	for i := range t.Soft {
		if !schedulingv1.TolerationsTolerateTaint(klog.Background(), p.tolerations, &t.Soft[i], false) {
			left /= 4
		}
	}
	return left
}
