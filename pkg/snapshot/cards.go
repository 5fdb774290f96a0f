// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// Cards are the UUIDs of a node's GPUs, by their index in the engine. Those of a node
// without a node agent are unknown.
type Cards struct {
	uuids   []string
	indices map[string]int
	// paused is true while neither the kubelet nor a DRA driver offers any of the cards that
	// the agent lists.
	paused bool
	// cordoned are the indices of healthy cards that people have cordoned.
	cordoned []int
	// numbers are those of the cards among all GPUs that the agent lists, divided ones included;
	// nil if none is divided. divided are the others.
	numbers []int
	divided []Divided
}

// Divided is a GPU that is divided into MIG slices, so that nobody can have it as a whole.
type Divided struct {
	// Number is that among all GPUs of the node.
	Number int
	*inventory.GPU
}

// Divided returns the GPUs of the node that are divided, in the order of their numbers.
func (c Cards) Divided() []Divided { return c.divided }

// Numbers returns the numbers of cards among all GPUs of the node, by which people know them, given
// their indices.
func (c Cards) Numbers(indices []int) []int {
	if c.numbers == nil {
		return indices
	}
	numbers := make([]int, 0, len(indices))
	for _, index := range indices {
		if index >= 0 && index < len(c.numbers) {
			numbers = append(numbers, c.numbers[index])
		}
	}
	return numbers
}

// Numbered returns the indices of cards, given their numbers; those of divided GPUs are left out.
func (c Cards) Numbered(numbers []int) []int {
	if c.numbers == nil {
		return numbers
	}
	var indices []int
	for _, number := range numbers {
		if index := slices.Index(c.numbers, number); index >= 0 {
			indices = append(indices, index)
		}
	}
	return indices
}

func newCards(uuids []string) Cards {
	cards := Cards{uuids: uuids, indices: make(map[string]int, len(uuids))}
	for i, uuid := range uuids {
		cards.indices[uuid] = i
	}
	return cards
}

// Same reports whether the cards have the same UUIDs in the same order.
func (c Cards) Same(other Cards) bool { return slices.Equal(c.uuids, other.uuids) }

// Anonymous reports whether the UUIDs of the cards are unknown, since their node has no
// agent.
func (c Cards) Anonymous() bool { return len(c.uuids) == 0 }

// Paused reports whether the node's agent lists cards of which nobody offers any, as while
// the agent, the kubelet or a DRA driver restarts. Until it does, no Pod can get them; places that are kept
// on them are kept on.
func (c Cards) Paused() bool { return c.paused }

// Cordoned reports whether people have cordoned a healthy card, given its index: no further Pod gets it.
func (c Cards) Cordoned(index int) bool { return slices.Contains(c.cordoned, index) }

// Translate converts indices of the cards before to indices of these; cards that are gone
// are left out. If the UUIDs before are unknown, the indices are unchanged.
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

// Assigned returns the indices of the cards in a Pod's assignment annotation; those that
// the node does not list are left out. known is false if the Pod has no valid assignment. An
// assignment of more cards than the Pod asks for is not valid: whoever wrote it, the kubelet
// has not given the Pod that many, and believing it would withhold them from all others.
func (c Cards) Assigned(pod *corev1.Pod) (indices []int, known bool) {
	uuids := assignedUUIDs(pod)
	if len(uuids) == 0 || len(uuids) > mostCards(pod) {
		return nil, false
	}
	return c.Listed(uuids), true
}

// assignedUUIDs returns the different cards that a Pod's assignment annotation names, sorted.
func assignedUUIDs(pod *corev1.Pod) []string {
	return assignedDevices(pod, func(name corev1.ResourceName) bool {
		return name == v1.ResourceGPU || name == v1.ResourceNVIDIAGPU || name == v1.ResourceGPUPercent || name == ResourceClaims
	})
}

// assignedDevices returns the different devices of some resources that a Pod's assignment annotation
// names, sorted.
func assignedDevices(pod *corev1.Pod, of func(resource corev1.ResourceName) bool) []string {
	text := pod.Annotations[inventory.AssignmentAnnotation]
	if text == "" {
		return nil
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		return nil
	}
	var uuids []string
	for _, resources := range assignment.Containers {
		for name, ids := range resources {
			if of(corev1.ResourceName(name)) {
				uuids = append(uuids, ids...)
			}
		}
	}
	slices.Sort(uuids)
	return slices.Compact(uuids)
}

// mostCards returns how many cards a Pod can have: those that it asks for, or one that it has
// a share of. How many it asks for with resource claims is not in the Pod.
func mostCards(pod *corev1.Pod) int {
	if len(pod.Spec.ResourceClaims) > 0 {
		return placement.MaxCards
	}
	held := heldOf(Requests(pod))
	if held.share > 0 {
		return 1
	}
	return held.gpus
}

// Assignment returns the annotation that assigns these cards to a Pod; empty if the UUIDs
// are unknown or the Pod needs no cards. Each container gets as many as it requests, in
// order; a share comes from the first. It is empty for GPUs that are asked for as
// nvidia.com/gpu as well: which ones a Pod gets is up to the kubelet.
func (c Cards) Assignment(pod *corev1.Pod, indices []int) (string, error) {
	if len(indices) == 0 || len(c.uuids) == 0 {
		return "", nil
	}
	if len(pod.Spec.ResourceClaims) > 0 && !WantsCards(pod) {
		return c.assignmentOfClaims(pod, indices)
	}
	assignment := inventory.Assignment{}
	next := 0
	for i := range pod.Spec.Containers {
		next += c.assign(&assignment, &pod.Spec.Containers[i], indices[min(next, len(indices)):], indices[0])
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if podfacts.IsSidecar(container) {
			// A sidecar keeps its cards while the other containers run.
			next += c.assign(&assignment, container, indices[min(next, len(indices)):], indices[0])
			continue
		}
		// The kubelet reuses the devices of init containers for the other containers.
		c.assign(&assignment, container, indices, indices[0])
	}
	if assignment.Containers == nil {
		return "", nil
	}
	return assignment.String()
}

// assign assigns cards to a container and returns how many whole ones it took.
func (c Cards) assign(assignment *inventory.Assignment, container *corev1.Container, left []int, shared int) int {
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

// assignmentOfClaims returns the annotation of a Pod that gets its cards by resource claims. Each
// container that uses a claim gets all of them: which claim has which is in the claims.
func (c Cards) assignmentOfClaims(pod *corev1.Pod, indices []int) (string, error) {
	assignment := inventory.Assignment{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if len(list[i].Resources.Claims) > 0 {
				assignment.Add(list[i].Name, string(ResourceClaims), c.Names(indices)...)
			}
		}
	}
	if assignment.Containers == nil {
		return "", nil
	}
	return assignment.String()
}

// Names returns the UUIDs of cards by their indices; nothing if the UUIDs of the node's
// cards are unknown.
func (c Cards) Names(indices []int) []string {
	if len(c.uuids) == 0 {
		return nil
	}
	names := make([]string, 0, len(indices))
	for _, index := range indices {
		if index >= 0 && index < len(c.uuids) {
			names = append(names, c.uuids[index])
		}
	}
	return names
}

// Listed returns the indices of cards by their UUIDs, in order; those that the node does not
// list are left out.
func (c Cards) Listed(uuids []string) []int {
	var indices []int
	for _, uuid := range uuids {
		if index, listed := c.indices[uuid]; listed {
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}

// Indices returns the indices of cards by their UUIDs; all is false if the node lacks one
// of them.
func (c Cards) Indices(uuids []string) (indices []int, all bool) {
	for _, uuid := range uuids {
		index, listed := c.indices[uuid]
		if !listed {
			return nil, false
		}
		indices = append(indices, index)
	}
	return indices, true
}
