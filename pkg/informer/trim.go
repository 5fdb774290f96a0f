// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/interning"
)

// Trimmer makes objects small for caches from which decisions are made. It drops managed fields, and
// of Pods and Nodes what only the kubelet and people read; many Pods and tasks share what is equal.
// Pods and Nodes in such caches are never written back. It is safe for concurrent use.
type Trimmer struct {
	mu    sync.Mutex
	lists interning.ResourceLists
}

// NewTrimmer returns a Trimmer.
func NewTrimmer() *Trimmer { return &Trimmer{lists: interning.NewResourceLists()} }

// Transform trims an object; it is a cache.TransformFunc. It changes the object, which nobody else
// knows yet.
func (t *Trimmer) Transform(object any) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch object := object.(type) {
	case *corev1.Pod:
		t.trimPod(object)
	case *corev1.Node:
		trimNode(object)
	case *v1.GPUTask:
		t.compact(object)
	}
	return WithoutManagedFields(object)
}

var _ cache.TransformFunc = (&Trimmer{}).Transform

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
			c.Name, c.Image = shared(c.Name), shared(c.Image)
			for j := range c.Env {
				c.Env[j].Name, c.Env[j].Value = shared(c.Env[j].Name), shared(c.Env[j].Value)
			}
			t.shareResources(&c.Resources)
		}
	}
}

// exact returns a slice without room for more.
func exact[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// shared returns an equal string, of which there is one.
func shared(text string) string { return unique.Make(text).Value() }

func (t *Trimmer) shareResources(r *corev1.ResourceRequirements) {
	r.Requests, r.Limits = t.lists.Intern(r.Requests), t.lists.Intern(r.Limits)
}

// trimPod keeps what a Pod requests, where it may go and how it fares.
func (t *Trimmer) trimPod(pod *corev1.Pod) {
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	spec := &pod.Spec
	t.trimContainers(spec.InitContainers)
	t.trimContainers(spec.Containers)
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
		one := &statuses[i]
		one.Image, one.ImageID, one.ContainerID = "", "", ""
		one.VolumeMounts, one.User, one.AllocatedResourcesStatus = nil, nil, nil
	}
}

// trimNode keeps what a Node offers and whether it works.
func trimNode(node *corev1.Node) {
	delete(node.Annotations, corev1.LastAppliedConfigAnnotation)
	status := &node.Status
	status.Images, status.VolumesInUse, status.VolumesAttached, status.Config = nil, nil, nil, nil
	status.Addresses, status.RuntimeHandlers = nil, nil
}
