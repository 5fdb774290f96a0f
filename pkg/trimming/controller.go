// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// trimForController drops of Pods and Nodes what only the kubelet and people read.
func (t *Trimmer) trimForController(object any) {
	switch object := object.(type) {
	case *corev1.Pod:
		t.trimPodForController(object)
	case *corev1.Node:
		trimNode(object)
	case *v1.GPUTask:
		t.compact(object)
	}
}

// compact keeps all of a task. Decoders give each slice room for four elements at least, and a
// container has many fields.
func (t *Trimmer) compact(task *v1.GPUTask) {
	if task.Spec.Template == nil {
		return
	}
	spec := &task.Spec.Template.Spec
	spec.InitContainers, spec.Containers, spec.Volumes = exact(spec.InitContainers), exact(spec.Containers), exact(spec.Volumes)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.VolumeMounts = exact(c.Env), exact(c.VolumeMounts)
			c.Name, c.Image = sharedString(c.Name), sharedString(c.Image)
			for j := range c.Env {
				c.Env[j].Name, c.Env[j].Value = sharedString(c.Env[j].Name), sharedString(c.Env[j].Value)
			}
			t.shareResources(&c.Resources)
		}
	}
}

// trimPodForController keeps what a Pod requests, where it may go and how it fares.
func (t *Trimmer) trimPodForController(pod *corev1.Pod) {
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	spec := &pod.Spec
	t.trimContainers(spec.InitContainers)
	t.trimContainers(spec.Containers)
	spec.Tolerations = t.sharedTolerations(spec.Tolerations)
	spec.EphemeralContainers, spec.Volumes, spec.SecurityContext = nil, nil, nil
	spec.HostAliases, spec.ImagePullSecrets, spec.DNSConfig, spec.ReadinessGates = nil, nil, nil, nil
	status := &pod.Status
	trimStatuses(status.InitContainerStatuses)
	trimStatuses(status.ContainerStatuses)
	if status.Phase != corev1.PodFailed { // failure rules of tasks may name any condition
		status.Conditions = exact(slices.DeleteFunc(status.Conditions, isStep))
	}
	status.EphemeralContainerStatuses, status.PodIPs, status.HostIPs = nil, nil, nil
}

// isStep reports whether a condition is a step on the way to the condition Ready.
func isStep(condition corev1.PodCondition) bool {
	switch condition.Type {
	case corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers:
		return true
	default:
		return false
	}
}

func (t *Trimmer) trimContainers(containers []corev1.Container) {
	for i := range containers {
		before := &containers[i]
		containers[i] = corev1.Container{
			Name: before.Name, Ports: before.Ports, Resources: before.Resources, ResizePolicy: before.ResizePolicy, RestartPolicy: before.RestartPolicy,
		}
		t.shareResources(&containers[i].Resources)
	}
}

func trimStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		status := &statuses[i]
		status.Image, status.ImageID, status.ContainerID = "", "", ""
		status.VolumeMounts, status.User, status.AllocatedResourcesStatus = nil, nil, nil
	}
}

// trimNode keeps what a Node offers and whether it works.
func trimNode(node *corev1.Node) {
	delete(node.Annotations, corev1.LastAppliedConfigAnnotation)
	status := &node.Status
	status.Images, status.VolumesInUse, status.VolumesAttached, status.Config = nil, nil, nil, nil
	status.Addresses, status.RuntimeHandlers = nil, nil
}
