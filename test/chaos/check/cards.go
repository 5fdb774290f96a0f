// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// InvariantCards says that at every revision each GPU is held by at most one Pod, or by shares of at most
// 100 %; what a Pod holds are as many GPUs of its node as it requests, and it keeps them.
const InvariantCards = "no GPU is allocated twice"

const wholeCard = 100

// cards follows who holds which GPU.
type cards struct {
	// holders is how much of each GPU each Pod holds, in percent.
	holders map[string]map[types.UID]int
	// nodes are the nodes of GPUs, which stay known when a node is deleted: its Pods hold them.
	nodes map[string]string
}

func newCards() *cards {
	return &cards{holders: map[string]map[types.UID]int{}, nodes: map[string]string{}}
}

// holds reports whether a Pod holds what it requests: from its Binding until it has ended or is gone.
func holds(pod *corev1.Pod) bool {
	return pod != nil && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func (c *cards) take(w *world, s *step) {
	switch {
	case s.node != nil && !s.gone:
		c.know(s.node)
	case s.pod != nil:
		c.follow(w, s)
	}
}

func (c *cards) know(node *corev1.Node) {
	list, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		return // it has no agent yet
	}
	for i := range list.GPUs {
		c.nodes[list.GPUs[i].UUID] = node.Name
	}
}

func (c *cards) follow(w *world, s *step) {
	had, has := holds(s.podBefore), !s.gone && holds(s.pod)
	switch {
	case has && !had:
		c.give(w, s.pod)
	case had && !has:
		c.free(s.pod.UID)
	case had && !inventory.SameDevices(s.podBefore.Annotations[inventory.AssignmentAnnotation], s.pod.Annotations[inventory.AssignmentAnnotation]):
		w.report(InvariantCards, nameOf(s.pod), "the GPUs of the Pod have changed from %q to %q since it was bound",
			s.podBefore.Annotations[inventory.AssignmentAnnotation], s.pod.Annotations[inventory.AssignmentAnnotation])
		c.free(s.pod.UID)
		c.give(w, s.pod)
	}
}

func (c *cards) free(pod types.UID) {
	for _, holders := range c.holders {
		delete(holders, pod)
	}
}

func (c *cards) give(w *world, pod *corev1.Pod) {
	whole, percent := requested(pod, v1.ResourceGPU), requested(pod, v1.ResourceGPUPercent)
	if whole == 0 && percent == 0 {
		return
	}
	got, err := assigned(pod)
	if err != nil {
		w.report(InvariantCards, nameOf(pod), "the Pod is bound to %s without GPUs: %v", pod.Spec.NodeName, err)
		return
	}
	if want := max(whole, 1); len(got) != want {
		w.report(InvariantCards, nameOf(pod), "the Pod requests %d GPUs and has got %v", want, got)
	}
	each := wholeCard
	if whole == 0 {
		each = percent
	}
	for _, card := range got {
		if node, known := c.nodes[card]; known && node != pod.Spec.NodeName {
			w.report(InvariantCards, nameOf(pod), "the Pod is on node %s and has got GPU %s of node %s", pod.Spec.NodeName, card, node)
		}
		if c.holders[card] == nil {
			c.holders[card] = map[types.UID]int{}
		}
		c.holders[card][pod.UID] = each
		c.count(w, card)
	}
}

func (c *cards) count(w *world, card string) {
	sum := 0
	var names []string
	for uid, percent := range c.holders[card] {
		sum += percent
		name := string(uid)
		if pod := w.pods[uid]; pod != nil {
			name = nameOf(pod)
		}
		names = append(names, fmt.Sprintf("%s (%d %%)", name, percent))
	}
	if sum > wholeCard {
		slices.Sort(names)
		w.report(InvariantCards, card, "%d %% of the GPU are allocated, to Pods %v", sum, names)
	}
}

// requested returns how much of a resource the containers of a Pod request.
func requested(pod *corev1.Pod, name corev1.ResourceName) int {
	sum := int64(0)
	for i := range pod.Spec.Containers {
		quantity := pod.Spec.Containers[i].Resources.Requests[name]
		sum += quantity.Value()
	}
	return int(sum)
}

// assigned returns the UUIDs of the GPUs that a Pod has.
func assigned(pod *corev1.Pod) ([]string, error) {
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, resources := range assignment.Containers {
		for _, resource := range []corev1.ResourceName{v1.ResourceGPU, v1.ResourceGPUPercent} {
			for _, card := range resources[string(resource)] {
				all[card] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}
