// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// PodDefaults apply where a task specifies nothing.
type PodDefaults struct {
	// Image is the image of the task's container.
	Image string
	// SchedulerName is the scheduler of the Pod; empty for the cluster's
	// default.
	SchedulerName string
	// GPUResource is the extended resource that counts whole GPUs; empty for falldio.com/gpu.
	GPUResource corev1.ResourceName
}

// NewPod returns the Pod of a task's member: the template of its role, overridden by the fields
// of the spec. An error names the field that can't be parsed, which validation in the API
// server normally prevents.
func NewPod(task *v1.GPUTask, index int, attempt int32, defaults PodDefaults) (*corev1.Pod, error) {
	role := roleAt(task, index)
	return newPod(task, &role, index, attempt, defaults)
}

func newPod(task *v1.GPUTask, role *Role, index int, attempt int32, defaults PodDefaults) (*corev1.Pod, error) {
	template := &corev1.PodTemplateSpec{}
	if role.Template != nil {
		template = role.Template.DeepCopy()
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            PodName(task, index),
			Namespace:       task.Namespace,
			Labels:          podLabels(task, role, template, index, attempt),
			Annotations:     podAnnotations(task, template),
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1.TaskKind())},
		},
		Spec: template.Spec,
	}
	applyDefaults(&pod.Spec, task, defaults)
	if err := applyResources(workContainer(&pod.Spec), role, cmp.Or(defaults.GPUResource, v1.ResourceGPU)); err != nil {
		return nil, err
	}
	if err := applyPlacement(&pod.Spec, role); err != nil {
		return nil, err
	}
	avoidFailedNodes(&pod.Spec, task)
	applyCheckpoint(pod, task, template)
	applyRendezvous(&pod.Spec, task, role, index-role.First)
	applySharedMemory(&pod.Spec, task, role)
	return pod, nil
}

func podLabels(task *v1.GPUTask, role *Role, template *corev1.PodTemplateSpec, index int, attempt int32) map[string]string {
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1.LabelApp] = v1.LabelAppValue
	labels[v1.LabelTask] = task.Name
	labels[v1.LabelIndex] = strconv.Itoa(index)
	labels[v1.LabelAttempt] = strconv.Itoa(int(attempt))
	if role.Name != "" {
		labels[v1.LabelRole] = role.Name
		labels[v1.LabelRoleIndex] = strconv.Itoa(index - role.First)
	}
	if task.Spec.Queue != "" {
		labels[v1.LabelQueue] = task.Spec.Queue
	}
	labelGang(labels, task)
	return labels
}

// podAnnotations returns the template's annotations with the gang's topology and the limit of the
// run time added. A limit of the template's own is left out: nobody would stop the Pod then.
func podAnnotations(task *v1.GPUTask, template *corev1.PodTemplateSpec) map[string]string {
	added := map[string]string{}
	if topology := task.Spec.Topology; topology != nil && IsGang(task) {
		added[v1.AnnotationTopologyLevel] = topology.Level
		added[v1.AnnotationTopologyMode] = cmp.Or(string(topology.Mode), v1.TopologyPreferred) // the schema's default
	}
	maps.Copy(added, runtimeAnnotations(task.Spec.MaxRuntimeSeconds, task.Status.PastRuntimeSeconds))
	_, claims := template.Annotations[v1.AnnotationMaxRuntime]
	if len(added) == 0 && !claims {
		return template.Annotations
	}
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		return added
	}
	delete(annotations, v1.AnnotationMaxRuntime)
	delete(annotations, v1.AnnotationPastRuntime)
	maps.Copy(annotations, added)
	return annotations
}

func applyDefaults(spec *corev1.PodSpec, task *v1.GPUTask, defaults PodDefaults) {
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: v1.ContainerName}}
	}
	if container := workContainer(spec); container.Image == "" {
		container.Image = defaults.Image
	}
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if spec.SchedulerName == "" {
		spec.SchedulerName = defaults.SchedulerName
	}
	if task.Spec.Priority != "" {
		spec.PriorityClassName = task.Spec.Priority
	}
}

// workContainer returns the container that gets the task's resources. The API
// server admits only templates where this is the container named gpu-task or
// the only one.
func workContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == v1.ContainerName {
			return &spec.Containers[i]
		}
	}
	return &spec.Containers[0]
}

// applyResources lets a container request what its role needs, whole GPUs as gpus.
func applyResources(container *corev1.Container, role *Role, gpus corev1.ResourceName) error {
	for _, wanted := range []struct {
		field, amount string
		resource      corev1.ResourceName
	}{
		{"cpu", role.CPU, corev1.ResourceCPU},
		{"memory", role.Memory, corev1.ResourceMemory},
	} {
		if wanted.amount == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(wanted.amount)
		if err != nil {
			return fmt.Errorf("%s %q: %w", role.field(wanted.field), wanted.amount, err)
		}
		setResource(&container.Resources, wanted.resource, quantity)
	}
	for _, list := range []corev1.ResourceList{container.Resources.Limits, container.Resources.Requests} {
		// Those of the template: a Pod has whole GPUs, a share of one, or slices of one profile, under one name.
		maps.DeleteFunc(list, func(name corev1.ResourceName, _ resource.Quantity) bool { return isOfGPUs(name) })
	}
	if !role.hasGPUs() {
		return nil
	}
	name, quantity, err := role.gpuRequest(gpus)
	if err != nil {
		return err
	}
	setResource(&container.Resources, name, quantity)
	return nil
}

// isOfGPUs reports whether a resource is one by which tasks request GPUs.
func isOfGPUs(name corev1.ResourceName) bool {
	_, slices := v1.SliceProfile(name)
	return slices || name == v1.ResourceGPU || name == v1.ResourceGPUPercent || name == v1.ResourceNVIDIAGPU
}

// setResource makes request and limit equal: GPUs can't be overcommitted, and
// a Pod whose CPU and memory are guaranteed is the last one to be evicted.
func setResource(resources *corev1.ResourceRequirements, name corev1.ResourceName, quantity resource.Quantity) {
	if resources.Limits == nil {
		resources.Limits = corev1.ResourceList{}
	}
	if resources.Requests == nil {
		resources.Requests = corev1.ResourceList{}
	}
	resources.Limits[name] = quantity
	resources.Requests[name] = quantity
}
