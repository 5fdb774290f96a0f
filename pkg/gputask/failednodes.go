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

// rememberNodes records on which nodes members have failed, given in the order of their ends. Of members that restart
// together, it is the one that failed first: the others may have failed because of it. If there are too many nodes,
// those are forgotten where it happened longest ago.
func (d *decision) rememberNodes(byAction map[v1.FailureAction][]*member) {
	for action, failed := range byAction {
		failed = slices.DeleteFunc(slices.Clone(failed), func(m *member) bool { return m.state != podFailed || m.pod.Spec.NodeName == "" })
		if len(failed) > 1 && (action == v1.ActionRestartTask || action == v1.ActionFailTask) {
			failed = failed[:1]
		}
		for _, m := range failed {
			d.rememberNode(m.pod.Spec.NodeName, *d.lastEnd([]*member{m}))
		}
	}
	d.forgetNodes()
}

// rememberNodeRefusals records which nodes have refused members, each refusal once: it is later than
// the node's last entry.
func (d *decision) rememberNodeRefusals() {
	for _, m := range d.members {
		if !m.isRefusedByNode() || m.pod.Spec.NodeName == "" {
			continue
		}
		at, known := nodeRefusalTime(m.pod), d.failedNode(m.pod.Spec.NodeName)
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

// acquitNode takes back that a member has failed on a node.
func (d *decision) acquitNode(name string) {
	if known := d.failedNode(name); known != nil {
		known.Failures--
	}
	d.status.FailedNodes = slices.DeleteFunc(d.status.FailedNodes, func(node v1.FailedNode) bool { return node.Failures == 0 })
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
// refused none. If there are no others, it prefers those where that happened least: in a small cluster, all nodes
// may be remembered, of which some refuse every Pod.
func avoidFailedNodes(spec *corev1.PodSpec, task *v1.GPUTask) {
	nodes := task.Status.FailedNodes
	if len(nodes) == 0 {
		return
	}
	least := slices.MinFunc(nodes, func(a, b v1.FailedNode) int { return int(a.Failures - b.Failures) }).Failures
	preferOthers(spec, nodes)
	preferOthers(spec, slices.DeleteFunc(slices.Clone(nodes), func(node v1.FailedNode) bool { return node.Failures == least }))
}

// preferOthers lets a Pod prefer other nodes than these.
func preferOthers(spec *corev1.PodSpec, nodes []v1.FailedNode) {
	if len(nodes) == 0 {
		return
	}
	others := corev1.NodeSelectorTerm{}
	for i := range nodes {
		others.MatchFields = append(others.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{nodes[i].Name},
		})
	}
	preferred := &nodeAffinity(spec).PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{Weight: avoidWeight, Preference: others})
}

func failedNodeNames(status *v1.GPUTaskStatus) []string {
	names := make([]string, len(status.FailedNodes))
	for i := range status.FailedNodes {
		names[i] = status.FailedNodes[i].Name
	}
	return names
}
