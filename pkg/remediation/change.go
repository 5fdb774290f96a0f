// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Change is a change of a Node's taints.
type Change struct {
	Node *corev1.Node
	Kind Kind
	// Taints are all taints of the Node after the change.
	Taints []corev1.Taint
	// Message says what is changed, and why.
	Message string
}

// Kind is the kind of a Change.
type Kind string

// The kinds of changes.
const (
	Added   Kind = "Added"
	Changed Kind = "Changed" // its value, its effect, or that there were several
	Removed Kind = "Removed"
)

// newChange returns the change that gives a Node the wanted taint, nil for none.
func newChange(node *corev1.Node, want *corev1.Taint, policy Policy) Change {
	change := Change{Node: node, Taints: withTaint(node.Spec.Taints, want)}
	switch {
	case want == nil:
		change.Kind = Removed
		change.Message = fmt.Sprintf("Removed the taint %s: %s", v1.TaintGPUUnhealthy, policy.whyRemoved(node))
	case !IsTainted(node):
		change.Kind = Added
		change.Message = fmt.Sprintf("Added the taint %s: %s", want.ToString(), whyTainted(want.Value))
	default:
		change.Kind = Changed
		change.Message = fmt.Sprintf("Changed the taint to %s: %s", want.ToString(), whyTainted(want.Value))
	}
	return change
}

// whyTainted says why a Node with this health has the taint.
func whyTainted(health string) string {
	if health == v1.GPUsUnhealthy {
		return "none of its GPUs is healthy"
	}
	return "some of its GPUs are not healthy, or missing"
}

// whyRemoved says why a Node no longer has the taint.
func (p *Policy) whyRemoved(node *corev1.Node) string {
	switch {
	case p.Effect == "":
		return "--taint-unhealthy-gpus is off"
	case node.Labels[v1.LabelGPUHealth] == v1.GPUsDegraded:
		return "some of its GPUs are healthy"
	default:
		return "all of its GPUs are healthy"
	}
}

// WhyHeldBack says why Nodes are held back.
func (p *Plan) WhyHeldBack() string {
	return fmt.Sprintf("Held back the taint %s: at most %d of %d nodes with GPUs may have it (--taint-unhealthy-gpus-max)",
		v1.TaintGPUUnhealthy, p.Limit, p.Nodes)
}
