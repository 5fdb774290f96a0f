// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// maxFailedNodes is how many entries status.failedNodes can have, in the CRD's schema.
const maxFailedNodes = 8

// rememberNodes records on which nodes members have failed. Of members that restart together, it is
// the one that failed first: the others may have failed because of it. If there are too many
// nodes, those are forgotten where it happened longest ago.
func (d *decision) rememberNodes(byAction map[v1.FailureAction][]*member) {
	for action, failed := range byAction {
		failed = slices.DeleteFunc(slices.Clone(failed), func(m *member) bool { return m.state != podFailed || m.pod.Spec.NodeName == "" })
		if len(failed) > 1 && (action == v1.ActionRestartTask || action == v1.ActionFailTask) {
			failed = []*member{slices.MinFunc(failed, func(a, b *member) int { return endOf(a.pod).Compare(endOf(b.pod)) })}
		}
		for _, m := range failed {
			d.rememberNode(m.pod.Spec.NodeName, *d.lastEnd([]*member{m}))
		}
	}
	d.forgetNodes()
}

// rememberRefusals records which nodes have refused members, each refusal once: it is later than
// the node's last entry.
func (d *decision) rememberRefusals() {
	for i := range d.members {
		m := &d.members[i]
		if !m.isRefused() || m.pod.Spec.NodeName == "" {
			continue
		}
		at, known := refusalTime(m.pod), d.failedNode(m.pod.Spec.NodeName)
		if known == nil || known.LastTime.Before(&at) {
			d.rememberNode(m.pod.Spec.NodeName, at)
		}
	}
	d.forgetNodes()
}

// forgetNodes forgets nodes if there are too many.
func (d *decision) forgetNodes() {
	nodes := d.status.FailedNodes
	if len(nodes) > maxFailedNodes {
		slices.SortStableFunc(nodes, func(a, b v1.FailedNode) int { return b.LastTime.Compare(a.LastTime.Time) })
		nodes = nodes[:maxFailedNodes]
	}
	slices.SortFunc(nodes, func(a, b v1.FailedNode) int { return strings.Compare(a.Name, b.Name) })
	d.status.FailedNodes = nodes
}

func (d *decision) rememberNode(name string, at metav1.Time) {
	known := d.failedNode(name)
	if known == nil {
		d.status.FailedNodes = append(d.status.FailedNodes, v1.FailedNode{Name: name, Failures: 1, LastTime: at})
		return
	}
	known.Failures++
	known.LastTime = at
}

// failedNode returns what is remembered of a node, nil if nothing is.
func (d *decision) failedNode(name string) *v1.FailedNode {
	at := slices.IndexFunc(d.status.FailedNodes, func(node v1.FailedNode) bool { return node.Name == name })
	if at < 0 {
		return nil
	}
	return &d.status.FailedNodes[at]
}

// avoidWeight is the greatest weight that a preference can have.
const avoidWeight = 100

// avoidFailedNodes lets a Pod prefer nodes on which none of the task has failed, and that have
// refused none.
func avoidFailedNodes(spec *corev1.PodSpec, task *v1.GPUTask) {
	names := failedNodeNames(&task.Status)
	if len(names) == 0 {
		return
	}
	others := corev1.NodeSelectorTerm{}
	for _, name := range names {
		others.MatchFields = append(others.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name},
		})
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	preferred := &spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{Weight: avoidWeight, Preference: others})
}

func failedNodeNames(status *v1.GPUTaskStatus) []string {
	names := make([]string, len(status.FailedNodes))
	for i := range status.FailedNodes {
		names[i] = status.FailedNodes[i].Name
	}
	return names
}
