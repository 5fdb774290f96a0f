// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignment makes the annotation that says which devices a Pod has tell
// the truth, which is what the kubelet did.
//
// The kubelet tells nothing of init containers that end before the others start.
// It keeps their devices for the Pod and gives them to the containers after them
// first, so either all that an init container has goes to others of its Pod, or
// the containers of the Pod have nothing else. What an annotation says of an init
// container stays while that can be true; else only those of its devices stay
// that the Pod has.
//
// What is not ours stays: other resources, fields that this program does not
// know, and annotations of a version that it does not know as a whole. What is no
// JSON says nothing and is replaced.
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
	// Annotation is what the annotation should be; empty if it is of a Version
	// that this program does not know, and must not be changed.
	Annotation, Version string
}

// Corrections compares what Pods have of some resources with their annotations,
// and returns those that differ, or can't be compared, sorted by namespace and
// name.
//
// Pods that have nothing of the resources are left alone, and so are Pods that
// the kubelet has not begun with: a Pod of the same name may still be there,
// and the truth would be that one's.
func Corrections(truth map[types.NamespacedName]inventory.Assignment, pods []*corev1.Pod, resources []string) []Correction {
	var corrections []Correction
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		has, known := truth[name]
		if !known || pod.Status.StartTime == nil {
			continue
		}
		claimed := parse(pod.Annotations[inventory.AssignmentAnnotation])
		switch {
		case claimed.foreign():
			corrections = append(corrections, Correction{Pod: name, UID: pod.UID, Version: claimed.version})
		case correct(claimed, pod, has, resources):
			corrections = append(corrections, Correction{Pod: name, UID: pod.UID, Annotation: claimed.String()})
		}
	}
	slices.SortFunc(corrections, func(a, b Correction) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return corrections
}

// correct changes an annotation to the truth and returns whether it did.
func correct(claimed *annotation, pod *corev1.Pod, has inventory.Assignment, resources []string) bool {
	unseen := initContainers(pod)
	names := map[string]bool{}
	for name := range claimed.containers {
		names[name] = true
	}
	for name := range has.Containers {
		names[name] = true
	}
	changed := claimed.version != inventory.Version
	for name := range names {
		for _, resource := range resources {
			right := has.Containers[name][resource]
			if unseen[name] {
				said, _ := claimed.get(name, resource)
				right = believable(said, pod, has, resource)
			}
			changed = claimed.set(name, resource, right) || changed
		}
	}
	return changed
}

// believable returns of the devices that an init container is said to have those
// that it can have had.
func believable(claimed []string, pod *corev1.Pod, has inventory.Assignment, resource string) []string {
	given := map[string]bool{}
	for _, devices := range has.Containers {
		for _, id := range devices[resource] {
			given[id] = true
		}
	}
	covers := true // all that its containers have, sidecars not counted
	for i := range pod.Spec.Containers {
		for _, id := range has.Containers[pod.Spec.Containers[i].Name][resource] {
			covers = covers && slices.Contains(claimed, id)
		}
	}
	if covers {
		return claimed
	}
	return slices.DeleteFunc(claimed, func(id string) bool { return !given[id] })
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
