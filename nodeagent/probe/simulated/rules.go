// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulated simulates a network: how long simulated nodes take to reach a target, by
// rules in a file that may be edited at any time.
package simulated

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Rule determines how fast nodes reach targets.
type Rule struct {
	// Node is a pattern for the names of nodes, in which a star matches any string; empty
	// for all.
	Node string `json:"node,omitempty"`
	// Target is a pattern for targets, in the same form; empty for all.
	Target string `json:"target,omitempty"`
	// Duration is how long that takes, 1ms by default.
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Fails is true if they don't reach it.
	Fails bool `json:"fails,omitempty"`
}

// Rules are in order: the first that matches applies.
type Rules []Rule

// maxDuration is longer than any probe takes, and short enough to be varied.
const maxDuration = time.Hour

// ParseRules parses a list of rules from YAML.
func ParseRules(data []byte) (Rules, error) {
	var rules Rules
	if err := yaml.UnmarshalStrict(data, &rules); err != nil {
		return nil, err
	}
	for i := range rules {
		if duration := rules[i].Duration; duration != nil && (duration.Duration < 0 || duration.Duration > maxDuration) {
			return nil, fmt.Errorf("rule %d: duration: must be from 0 to %v, is %v", i+1, maxDuration, duration.Duration)
		}
	}
	return rules, nil
}

// defaultDuration is how long it takes if no rule sets a duration.
const defaultDuration = time.Millisecond

// measure returns how long a node takes to reach a target, and whether it does.
func (r Rules) measure(node, target string) (time.Duration, bool) {
	duration, reached := defaultDuration, true
	for i := range r {
		if matches(r[i].Node, node) && matches(r[i].Target, target) {
			if r[i].Duration != nil {
				duration = r[i].Duration.Duration
			}
			reached = !r[i].Fails
			break
		}
	}
	return vary(duration, node, target), reached
}

// variation is how far a duration may deviate from the rules, as a fraction.
const variation = 0.05

// vary makes durations differ a little between nodes and targets, deterministically.
func vary(duration time.Duration, node, target string) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node + "\n" + target)) // never fails
	const steps = 1 << 16
	// The upper bits, since the lower ones are alike for similar names.
	position := float64(hash.Sum64()>>48)/(steps/2) - 1 // between -1 and 1
	return time.Duration(float64(duration) * (1 + variation*position))
}

// matches reports whether a string matches a pattern; an empty pattern matches all.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}
