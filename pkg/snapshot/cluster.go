// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Cluster is what the engine makes of Nodes and Pods.
type Cluster struct {
	// Cluster knows Pods by their UIDs.
	*placement.Cluster
	// Cards are the GPUs of each node, by its name.
	Cards map[string]Cards
	// Problems are what could not be read; the rest counts all the same.
	Problems []error
}

// Cluster shows Nodes, and the Pods that have one and have not ended, to the engine.
func (v *NodeView) Cluster(policy placement.Policy, nodes []*corev1.Node, pods []*corev1.Pod) *Cluster {
	c := &Cluster{Cluster: placement.NewCluster(policy), Cards: make(map[string]Cards, len(nodes))}
	described := make(map[string]*placement.Node, len(nodes))
	for _, node := range nodes {
		its, cards, err := v.Node(node)
		c.note(err)
		if err := c.SetNode(its); err != nil {
			c.note(err)
			continue
		}
		described[node.Name], c.Cards[node.Name] = &its, cards
	}
	// Those of which it is known what they have come before those that get what is
	// left, by a guess.
	byKnowledge := slices.Clone(pods)
	slices.SortStableFunc(byKnowledge, func(a, b *corev1.Pod) int { return cmp.Compare(silence(a), silence(b)) })
	for _, pod := range byKnowledge {
		its := described[pod.Spec.NodeName]
		if its == nil || Ended(pod) {
			continue
		}
		use := Occupied(c.Cluster, its, c.Cards[its.Name], pod, nil)
		c.note(c.Place(placement.Pod{Name: string(pod.UID), Node: pod.Spec.NodeName, Use: use}))
	}
	return c
}

func (c *Cluster) note(problem error) {
	if problem != nil {
		c.Problems = append(c.Problems, problem)
	}
}
