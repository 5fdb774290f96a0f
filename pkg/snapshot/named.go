// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// takeNodeNames removes from the criteria what they require of the names of nodes, and
// returns it as rules: as labels, names would make all nodes different for the engine.
// Requirements that rules can't express stay.
func (c *criteria) takeNodeNames() []placement.NodeRule {
	var rules []placement.NodeRule
	if name := c.NodeSelector[corev1.LabelHostname]; name != "" {
		rules = append(rules, placement.NodeRule{Hostnames: true, Names: []string{name}})
		delete(c.NodeSelector, corev1.LabelHostname)
	}
	switch len(c.Terms) {
	case 0:
	case 1:
		fromTerm, rest := namesOfTerm(c.Terms[0])
		rules = append(rules, fromTerm...)
		if len(fromTerm) > 0 {
			c.Terms = rest
		}
	default:
		if rule, ok := anyOfTerms(c.Terms); ok {
			rules, c.Terms = append(rules, rule), nil
		}
	}
	return rules
}

// namesOfTerm returns the rules in a term, and the term without them, if anything is left
// of it.
func namesOfTerm(term corev1.NodeSelectorTerm) (rules []placement.NodeRule, rest []corev1.NodeSelectorTerm) {
	take := func(list []corev1.NodeSelectorRequirement, key string) (others []corev1.NodeSelectorRequirement) {
		for i := range list {
			if rule, ok := nodeRule(&list[i], key); ok {
				rules = append(rules, rule)
			} else {
				others = append(others, list[i])
			}
		}
		return others
	}
	left := corev1.NodeSelectorTerm{
		MatchExpressions: take(term.MatchExpressions, corev1.LabelHostname),
		MatchFields:      take(term.MatchFields, NodeNameKey),
	}
	if len(left.MatchExpressions)+len(left.MatchFields) == 0 {
		return rules, nil
	}
	return rules, []corev1.NodeSelectorTerm{left}
}

// nodeRule returns the rule that a requirement of a key stands for.
func nodeRule(requirement *corev1.NodeSelectorRequirement, key string) (rule placement.NodeRule, ok bool) {
	in, except := requirement.Operator == corev1.NodeSelectorOpIn, requirement.Operator == corev1.NodeSelectorOpNotIn
	if requirement.Key != key || (!in && !except) || slices.Contains(requirement.Values, "") {
		return placement.NodeRule{}, false
	}
	return placement.NodeRule{Hostnames: key == corev1.LabelHostname, Except: except, Names: requirement.Values}, true
}

// anyOfTerms returns the one rule that several terms stand for, if each of them names
// nodes and nothing else.
func anyOfTerms(terms []corev1.NodeSelectorTerm) (whole placement.NodeRule, ok bool) {
	for i := range terms {
		rules, rest := namesOfTerm(terms[i])
		if len(rules) != 1 || len(rest) > 0 || rules[0].Except || (i > 0 && rules[0].Hostnames != whole.Hostnames) {
			return placement.NodeRule{}, false
		}
		whole.Hostnames = rules[0].Hostnames
		whole.Names = append(whole.Names, rules[0].Names...)
	}
	return whole, true
}
