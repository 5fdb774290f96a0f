// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assignment corrects the annotation with a Pod's devices to what the kubelet has
// allocated.
//
// The kubelet does not list init containers that end before the others start. It keeps
// their devices for the Pod and reuses them first for the containers after them, so either
// all devices of an init container go to others of its Pod, or the containers of the Pod
// have no other devices. The annotation of an init container is kept as long as it can be
// true; otherwise only those of its devices are kept that the Pod has.
//
// What is not ours is preserved: other resources, unknown fields, and annotations of an
// unknown version as a whole. An annotation that is not JSON is replaced.
package assignment

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// Correction is a Pod whose annotation is wrong.
type Correction struct {
	Pod types.NamespacedName
	UID types.UID
	// Annotation is the correct value; empty if the annotation is of an unknown Version
	// and must not be changed.
	Annotation, Version string
	// Devices is true if the devices were wrong, and not only what is said about them.
	Devices bool
}

// Corrections compares the devices that Pods have of some resources with their annotations,
// and returns the Pods that differ, or can't be compared, sorted by namespace and name.
//
// It skips Pods that have none of the resources, and Pods that the kubelet has not admitted
// yet: the devices may be those of an older Pod of the same name.
func Corrections(actual map[types.NamespacedName]inventory.Assignment, pods []*corev1.Pod, resources []string) []Correction {
	var corrections []Correction
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		allocated, found := actual[name]
		if !found || pod.Status.StartTime == nil {
			continue
		}
		recorded := parse(pod.Annotations[inventory.AssignmentAnnotation])
		if recorded.isUnknownVersion() {
			corrections = append(corrections, Correction{Pod: name, UID: pod.UID, Version: recorded.version})
			continue
		}
		devices := correct(recorded, pod, allocated, resources)
		if stated := recorded.enforce(allocated.Enforcement); devices || stated {
			corrections = append(corrections, Correction{Pod: name, UID: pod.UID, Annotation: recorded.String(), Devices: devices})
		}
	}
	slices.SortFunc(corrections, func(a, b Correction) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return corrections
}

// correct corrects the devices in an annotation and returns whether it has changed.
func correct(recorded *annotation, pod *corev1.Pod, allocated inventory.Assignment, resources []string) bool {
	unlisted := initContainers(pod)
	changed := recorded.version != inventory.Version
	for name := range sets.KeySet(recorded.containers).Union(sets.KeySet(allocated.Containers)) {
		for _, resource := range resources {
			right := allocated.Containers[name][resource]
			if unlisted.Has(name) {
				current, _ := recorded.get(name, resource)
				right = possible(current, pod, allocated, resource)
			}
			changed = recorded.set(name, resource, right) || changed
		}
	}
	return changed
}

// possible returns those of an init container's recorded devices that it can have had.
func possible(recorded []string, pod *corev1.Pod, allocated inventory.Assignment, resource string) []string {
	ofPod := sets.Set[string]{}
	for _, devices := range allocated.Containers {
		ofPod.Insert(devices[resource]...)
	}
	covers := true // includes all devices of the containers, except sidecars
	for i := range pod.Spec.Containers {
		covers = covers && sets.New(recorded...).HasAll(allocated.Containers[pod.Spec.Containers[i].Name][resource]...)
	}
	if covers {
		return recorded
	}
	return slices.DeleteFunc(recorded, func(id string) bool { return !ofPod.Has(id) })
}

// initContainers returns the init containers that end before the others start.
func initContainers(pod *corev1.Pod) sets.Set[string] {
	names := sets.Set[string]{}
	for i := range pod.Spec.InitContainers {
		if container := &pod.Spec.InitContainers[i]; !podfacts.IsSidecar(container) {
			names.Insert(container.Name)
		}
	}
	return names
}
