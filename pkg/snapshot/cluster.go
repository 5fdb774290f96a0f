// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Cluster is the state of Nodes and Pods as the engine sees it.
type Cluster struct {
	// Cluster identifies Pods by their UIDs.
	*placement.Cluster
	// Cards are the GPUs of each node, by node name.
	Cards map[string]Cards
	// Problems are what could not be read; everything else is included.
	Problems []error
}

// Cluster builds the state from Nodes, and from the Pods that are bound and have not ended.
func (v *NodeView) Cluster(policy placement.Policy, nodes []*corev1.Node, pods []*corev1.Pod) *Cluster {
	c := &Cluster{Cluster: placement.NewCluster(policy), Cards: make(map[string]Cards, len(nodes))}
	described := make(map[string]*placement.Node, len(nodes))
	for _, node := range nodes {
		v.Observe(node)
	}
	for _, node := range nodes {
		n, cards, err := v.Node(node)
		c.addProblem(err)
		if err := c.SetNode(n); err != nil {
			c.addProblem(err)
			continue
		}
		described[node.Name], c.Cards[node.Name] = &n, cards
	}
	// Pods with known cards come before those whose cards are guessed from what is left.
	assignedFirst := slices.Clone(pods)
	slices.SortStableFunc(assignedFirst, func(a, b *corev1.Pod) int { return cmp.Compare(assignmentOrder(a), assignmentOrder(b)) })
	for _, pod := range assignedFirst {
		node := described[pod.Spec.NodeName]
		if node == nil || Ended(pod) {
			continue
		}
		use := Occupied(c.Cluster, node, c.Cards[node.Name], pod, nil)
		c.addProblem(c.Place(placement.Pod{Name: string(pod.UID), Node: pod.Spec.NodeName, Use: use}))
	}
	return c
}

func (c *Cluster) addProblem(problem error) {
	if problem != nil {
		c.Problems = append(c.Problems, problem)
	}
}
