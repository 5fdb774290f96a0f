// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"iter"
	"slices"

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
	onNode := make(map[string][]*corev1.Pod, len(nodes))
	for _, pod := range pods {
		if !podfacts.Ended(pod) {
			onNode[pod.Spec.NodeName] = append(onNode[pod.Spec.NodeName], pod)
		}
	}
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
	for _, node := range nodes {
		if n := described[node.Name]; n != nil {
			c.Problems = append(c.Problems, Fill(c.Cluster, n, c.Cards[node.Name], onNode[node.Name], nil)...)
		}
	}
	return c
}

// Fill counts what Pods hold of a node that is empty so far, and what resource claims do, of whose GPUs these are the
// UUIDs. It returns what could not be counted.
func Fill(cluster *placement.Cluster, node *placement.Node, cards Cards, pods []*corev1.Pod, claimed []string) (problems []error) {
	place := func(name string, use placement.Use) {
		if err := cluster.Place(placement.Pod{Name: name, Node: node.Name, Use: use}); err != nil {
			problems = append(problems, err)
		}
	}
	occupied := Occupied
	if held := DevicesUse(cards, claimed); len(held.GPUs) > 0 {
		occupied = OccupiedBesideClaims
		place(DevicesName(node.Name), held)
	}
	mustGuess := func(pod *corev1.Pod) bool {
		_, known := cards.Assigned(pod)
		return !known && WantsCards(pod)
	}
	KnownFirst(slices.Values(pods), mustGuess, func(pod *corev1.Pod) {
		place(string(pod.UID), occupied(cluster, node, cards, pod, nil))
	})
	return problems
}

// KnownFirst calls count for each of the Pods of a node: first for those whose cards are known, then for those whose
// cards are guessed from what is left, by their UIDs. So all who count the same Pods at once guess the same.
func KnownFirst(pods iter.Seq[*corev1.Pod], mustGuess func(*corev1.Pod) bool, count func(*corev1.Pod)) {
	var guesses []*corev1.Pod
	for pod := range pods {
		if mustGuess(pod) {
			guesses = append(guesses, pod)
		} else {
			count(pod)
		}
	}
	slices.SortFunc(guesses, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range guesses {
		count(pod)
	}
}

func (c *Cluster) addProblem(problem error) {
	if problem != nil {
		c.Problems = append(c.Problems, problem)
	}
}
