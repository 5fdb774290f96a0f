// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation decides which Nodes get the taint falldio.com/gpu-unhealthy, which keeps
// Pods away from GPUs that are not healthy. It has no API client and no clock.
package remediation

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Policy says which Nodes get the taint.
type Policy struct {
	// Effect is the taint's effect; empty if no Node is to have the taint.
	Effect corev1.TaintEffect
	// Degraded also taints Nodes some of whose GPUs are healthy.
	Degraded bool
	// Max is how many of the Nodes with GPUs may have the taint: a number, or a percentage that
	// is rounded down. One always may.
	Max intstr.IntOrString
}

// Plan is what to do with the Nodes.
type Plan struct {
	Changes []Change
	// HeldBack are the Nodes that don't get the taint, or its stricter effect, since too many have it.
	HeldBack []*corev1.Node
	// Nodes is how many Nodes have GPUs, Tainted how many of them have the taint before the
	// changes, and Limit how many may have it.
	Nodes, Tainted, Limit int
}

// Decide compares the Nodes' taints with their GPUs' health. A Node with the taint counts towards
// the limit until it no longer has it: a write that takes it away may fail.
func Decide(nodes []*corev1.Node, policy Policy, now time.Time) Plan {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var plan Plan
	var stricter []*corev1.Node
	for _, node := range nodes {
		if !hasKnownHealth(node) && !IsTainted(node) {
			continue // it has no GPUs, or no agent
		}
		plan.Nodes++
		if IsTainted(node) {
			plan.Tainted++
		}
		want, known := policy.want(node, now)
		switch {
		case !known:
		case want != nil && strictness(want.Effect) > strictest(node.Spec.Taints):
			stricter = append(stricter, node)
		default:
			plan.correct(node, want, policy)
		}
	}
	plan.Limit = policy.limit(plan.Nodes)
	plan.taint(stricter, policy, now)
	return plan
}

// want returns the taint that a Node should have, nil for none, unless that is not known: the
// agent of a Node without the label may be about to come back, and its GPUs are no better for that.
func (p *Policy) want(node *corev1.Node, now time.Time) (taint *corev1.Taint, known bool) {
	health := node.Labels[v1.LabelGPUHealth]
	switch {
	case p.Effect == "":
		return nil, true
	case !hasKnownHealth(node):
		return nil, false
	case health == v1.GPUsUnhealthy, health == v1.GPUsDegraded && p.Degraded:
		return newTaint(health, p.Effect, now), true
	default:
		return nil, true
	}
}

// hasKnownHealth reports whether an agent has labelled the Node with its GPUs' health.
func hasKnownHealth(node *corev1.Node) bool {
	switch node.Labels[v1.LabelGPUHealth] {
	case v1.GPUsHealthy, v1.GPUsDegraded, v1.GPUsUnhealthy:
		return true
	default:
		return false
	}
}

// correct plans a change that is allowed whatever the limit: it makes no taint stricter.
func (p *Plan) correct(node *corev1.Node, want *corev1.Taint, policy Policy) {
	if !matches(node.Spec.Taints, want) {
		p.Changes = append(p.Changes, newChange(node, want, policy))
	}
}

// taint plans the taints that Nodes lack, and those that get stricter, up to the limit. Nodes that
// have the taint come first, then those without any healthy GPU.
func (p *Plan) taint(nodes []*corev1.Node, policy Policy, now time.Time) {
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(rank(a), rank(b)) })
	used := p.Tainted
	for _, node := range nodes {
		if IsTainted(node) {
			used-- // it is counted again if its taint may get stricter
		}
	}
	for _, node := range nodes {
		if used >= p.Limit {
			p.HeldBack = append(p.HeldBack, node)
			continue
		}
		used++
		want, _ := policy.want(node, now)
		p.Changes = append(p.Changes, newChange(node, want, policy))
	}
}

// rank orders the Nodes for which there is not room for all.
func rank(node *corev1.Node) int {
	switch {
	case IsTainted(node):
		return 0
	case node.Labels[v1.LabelGPUHealth] == v1.GPUsUnhealthy:
		return 1
	default:
		return 2
	}
}

// limit returns how many of so many Nodes may have the taint.
func (p *Policy) limit(nodes int) int {
	limit, err := intstr.GetScaledValueFromIntOrPercent(&p.Max, nodes, false)
	if err != nil {
		return 1 // can't happen: the flag was checked
	}
	return max(1, limit)
}
