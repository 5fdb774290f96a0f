// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignment makes the annotation that says which devices a Pod has tell
// the truth, which is what the kubelet did.
package assignment

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Correction is a Pod whose annotation does not tell the truth.
type Correction struct {
	Pod types.NamespacedName
	UID types.UID
	// Assignment is what the annotation should be.
	Assignment inventory.Assignment
}

// Corrections compares what Pods have of some resources with their annotations,
// and returns those that differ, sorted by namespace and name.
//
// Pods that have nothing of the resources are left alone, and so are Pods that
// the kubelet has not begun with: a Pod of the same name may still be there,
// and the truth would be that one's. Other resources in an annotation stay as
// they are, and so does what is said of init containers, of which the kubelet
// tells nothing.
func Corrections(truth map[types.NamespacedName]inventory.Assignment, pods []*corev1.Pod, resources []string) []Correction {
	var corrections []Correction
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		has, known := truth[name]
		if !known || pod.Status.StartTime == nil {
			continue
		}
		annotation := pod.Annotations[inventory.AssignmentAnnotation]
		claimed, err := inventory.ParseAssignment(annotation)
		if err != nil {
			claimed = &inventory.Assignment{} // what can't be read is replaced
		}
		right := merge(claimed, has, resources, initContainers(pod))
		if err != nil || !equal(claimed, &right) {
			corrections = append(corrections, Correction{Pod: name, UID: pod.UID, Assignment: right})
		}
	}
	slices.SortFunc(corrections, func(a, b Correction) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return corrections
}

// merge returns the truth, and of what was claimed that which the truth doesn't
// know.
func merge(claimed *inventory.Assignment, truth inventory.Assignment, resources []string, unseen map[string]bool) inventory.Assignment {
	right := inventory.Assignment{Version: inventory.Version}
	for container, devices := range claimed.Containers {
		for resource, ids := range devices {
			if len(ids) > 0 && (unseen[container] || !slices.Contains(resources, resource)) {
				right.Add(container, resource, ids...)
			}
		}
	}
	for container, devices := range truth.Containers {
		for resource, ids := range devices {
			right.Add(container, resource, ids...)
		}
	}
	return right
}

// initContainers are those that run to their end before the others start.
func initContainers(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		policy := pod.Spec.InitContainers[i].RestartPolicy
		if policy == nil || *policy != corev1.ContainerRestartPolicyAlways {
			names[pod.Spec.InitContainers[i].Name] = true
		}
	}
	return names
}

// equal compares what two assignments say, not how they say it.
func equal(a, b *inventory.Assignment) bool {
	return slices.Equal(flatten(a), flatten(b))
}

type entry struct{ container, resource, id string }

func flatten(a *inventory.Assignment) []entry {
	var entries []entry
	for container, devices := range a.Containers {
		for resource, ids := range devices {
			for _, id := range ids {
				entries = append(entries, entry{container, resource, id})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.container, b.container), cmp.Compare(a.resource, b.resource), cmp.Compare(a.id, b.id))
	})
	return slices.Compact(entries)
}
