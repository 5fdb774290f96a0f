// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
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
		v.observe(node)
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
	var guessed []*corev1.Pod
	for _, pod := range pods {
		node := described[pod.Spec.NodeName]
		if node == nil || podfacts.Ended(pod) {
			continue
		}
		if _, known := c.Cards[node.Name].Assigned(pod); known || !WantsCards(pod) {
			c.count(node, pod)
		} else {
			guessed = append(guessed, pod)
		}
	}
	for _, pod := range guessed {
		c.count(described[pod.Spec.NodeName], pod)
	}
	return c
}

// count adds what a Pod holds of its node.
func (c *Cluster) count(node *placement.Node, pod *corev1.Pod) {
	use := Occupied(c.Cluster, node, c.Cards[node.Name], pod, nil)
	c.addProblem(c.Place(placement.Pod{Name: string(pod.UID), Node: node.Name, Use: use}))
}

func (c *Cluster) addProblem(problem error) {
	if problem != nil {
		c.Problems = append(c.Problems, problem)
	}
}
