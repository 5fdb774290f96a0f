// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Occupied returns what a Pod that has a node holds of it: the cards that are
// written in the Pod, else those that are supposed, else a guess: another scheduler
// bound it, or the node has no agent, and the kubelet gave it free ones.
func Occupied(cluster *placement.Cluster, node *placement.Node, cards Cards, pod *corev1.Pod, supposed []int) placement.Use {
	if !WantsGPUs(pod) {
		return Use(pod, nil)
	}
	if assigned, known := cards.Assigned(pod); known {
		return Use(pod, assigned)
	}
	if len(supposed) > 0 {
		return Use(pod, supposed)
	}
	return Use(pod, guess(cluster, node, pod))
}

func guess(cluster *placement.Cluster, node *placement.Node, pod *corev1.Pod) []int {
	asked, err := Shape(pod)
	if err != nil {
		return nil
	}
	shape := placement.Shape{GPUs: asked.GPUs, Share: asked.Share}
	if place, fits := cluster.On(node.Name, cluster.Request(shape)); fits {
		return place.GPUs
	}
	return healthyFirst(node.GPUs, max(shape.GPUs, min(shape.Share, 1)))
}

// healthyFirst returns so many cards of a node on which there is no room: they are
// counted as used twice.
func healthyFirst(gpus []placement.GPU, count int) []int {
	var healthy, broken []int
	for i := range gpus {
		if gpus[i].Broken {
			broken = append(broken, i)
		} else {
			healthy = append(healthy, i)
		}
	}
	all := slices.Concat(healthy, broken)
	return all[:min(count, len(all))]
}

// silence is 1 for a Pod that does not say which cards it has.
func silence(pod *corev1.Pod) int {
	if pod.Annotations[inventory.AssignmentAnnotation] == "" {
		return 1
	}
	return 0
}

// Cluster returns what the engine makes of Nodes and of the Pods that have one and
// have not ended. Problems are what could not be read; the rest counts all the same.
func (v *NodeView) Cluster(policy placement.Policy, nodes []*corev1.Node, pods []*corev1.Pod) (cluster *placement.Cluster, problems []error) {
	cluster = placement.NewCluster(policy)
	type known struct {
		node  placement.Node
		cards Cards
	}
	described := make(map[string]*known, len(nodes))
	for _, node := range nodes {
		its, cards, err := v.Node(node)
		if err != nil {
			problems = append(problems, err)
		}
		if err := cluster.SetNode(its); err != nil {
			problems = append(problems, err)
			continue
		}
		described[node.Name] = &known{its, cards}
	}
	// Those of which it is known what they have come before those that get what is
	// left, by a guess.
	byKnowledge := slices.Clone(pods)
	slices.SortStableFunc(byKnowledge, func(a, b *corev1.Pod) int { return cmp.Compare(silence(a), silence(b)) })
	for _, pod := range byKnowledge {
		its := described[pod.Spec.NodeName]
		if its == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		use := Occupied(cluster, &its.node, its.cards, pod, nil)
		if err := cluster.Place(placement.Pod{Name: string(pod.UID), Node: pod.Spec.NodeName, Use: use}); err != nil {
			problems = append(problems, err)
		}
	}
	return cluster, problems
}
