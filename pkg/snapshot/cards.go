// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Cards are the names of a node's GPUs, by the index by which the engine knows
// them. A node without a node agent has none.
type Cards struct {
	uuids   []string
	indices map[string]int
}

func newCards(uuids []string) Cards {
	cards := Cards{uuids: uuids, indices: make(map[string]int, len(uuids))}
	for i, uuid := range uuids {
		cards.indices[uuid] = i
	}
	return cards
}

// Same reports whether the cards have the same names in the same order.
func (c Cards) Same(other Cards) bool { return slices.Equal(c.uuids, other.uuids) }

// Anonymous reports whether the cards have no names, as their node has no agent.
func (c Cards) Anonymous() bool { return len(c.uuids) == 0 }

// Translate returns the indices of cards that were known by other indices before;
// those that are gone are left out. Cards that had no names keep their indices.
func (c Cards) Translate(before Cards, indices []int) []int {
	if len(before.uuids) == 0 {
		return indices
	}
	var translated []int
	for _, index := range indices {
		if index >= len(before.uuids) {
			continue
		}
		if now, listed := c.indices[before.uuids[index]]; listed {
			translated = append(translated, now)
		}
	}
	return translated
}

// Assigned returns the indices of the cards that a Pod has by its annotation; those
// that the node does not list are left out. known is false if it does not say.
func (c Cards) Assigned(pod *corev1.Pod) (indices []int, known bool) {
	text := pod.Annotations[inventory.AssignmentAnnotation]
	if text == "" {
		return nil, false
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		return nil, false
	}
	has := map[int]bool{}
	for _, resources := range assignment.Containers {
		for _, uuid := range append(resources[string(v1.ResourceGPU)], resources[string(v1.ResourceGPUPercent)]...) {
			index, listed := c.indices[uuid]
			known = true
			if listed && !has[index] {
				has[index] = true
				indices = append(indices, index)
			}
		}
	}
	slices.Sort(indices) // maps have no order
	return indices, known
}

// Assignment returns the annotation that gives a Pod these cards; empty if the
// node's cards have no names or the Pod wants none. Each container gets those
// that it asks for, in order; a share comes from the first.
func (c Cards) Assignment(pod *corev1.Pod, indices []int) (string, error) {
	if len(indices) == 0 || len(c.uuids) == 0 {
		return "", nil
	}
	assignment := inventory.Assignment{}
	next := 0
	for i := range pod.Spec.Containers {
		next += c.give(&assignment, &pod.Spec.Containers[i], indices[min(next, len(indices)):], indices[0])
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if restarts := container.RestartPolicy; restarts != nil && *restarts == corev1.ContainerRestartPolicyAlways {
			// A sidecar keeps what it has beside the others.
			next += c.give(&assignment, container, indices[min(next, len(indices)):], indices[0])
			continue
		}
		// The kubelet lets containers have what init containers had before them.
		c.give(&assignment, container, indices, indices[0])
	}
	if assignment.Containers == nil {
		return "", nil
	}
	return assignment.String()
}

// give assigns a container its cards and returns how many whole ones it took.
func (c Cards) give(assignment *inventory.Assignment, container *corev1.Container, left []int, shared int) int {
	if quantity(container.Resources.Requests, v1.ResourceGPUPercent) > 0 {
		assignment.Add(container.Name, string(v1.ResourceGPUPercent), c.uuids[shared])
		return 0
	}
	count := min(int(quantity(container.Resources.Requests, v1.ResourceGPU)), len(left))
	for _, index := range left[:count] {
		assignment.Add(container.Name, string(v1.ResourceGPU), c.uuids[index])
	}
	return count
}
