// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// namespace is where all tasks are.
const namespace = "default"

// begin is the time from which seconds are counted.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) metav1.Time {
	return metav1.NewTime(begin.Add(time.Duration(seconds * float64(time.Second))))
}

// objects are the Nodes, GPUTasks and Pods of a site, as the API server has them.
type objects struct {
	nodes []*corev1.Node
	tasks map[string]*v1.GPUTask
	// pods are by name.
	pods map[string]tenant
}

func newObjects(nodes []placement.Node) (*objects, error) {
	o := &objects{tasks: map[string]*v1.GPUTask{}, pods: map[string]tenant{}}
	for i := range nodes {
		node, err := nodeObject(&nodes[i])
		if err != nil {
			return nil, err
		}
		o.nodes = append(o.nodes, node)
	}
	return o, nil
}

func nodeObject(n *placement.Node) (*corev1.Node, error) {
	listed := inventory.Inventory{Version: inventory.Version}
	for i := range n.GPUs {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: uuid(n.Name, i), Model: n.Model, MemoryMiB: 1 << 14, Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		return nil, err
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, Labels: map[string]string{v1.LabelGPUModel: n.Model}, Annotations: map[string]string{inventory.Annotation: text},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(n.CPU, resource.DecimalSI), corev1.ResourceMemory: mebibytes(n.Memory),
				corev1.ResourcePods: *resource.NewQuantity(int64(n.Slots), resource.DecimalSI),
				v1.ResourceGPU:      *resource.NewQuantity(int64(len(n.GPUs)), resource.DecimalSI),
			},
		},
	}, nil
}

func uuid(node string, gpu int) string { return fmt.Sprintf("GPU-%s-%d", node, gpu) }

func mebibytes(count int64) resource.Quantity {
	return *resource.NewQuantity(count<<20, resource.BinarySI)
}

// world returns what the rescheduler sees of a run. With saved, all tasks have just saved
// their work.
func (o *objects) world(r *trial, saved bool) (*clusterview.Objects, error) {
	w := &clusterview.Objects{Nodes: o.nodes, Now: at(r.now).Time}
	for _, j := range r.sorted() {
		if j.shape.Percent() == 0 { // not managed by a GPUTask: it never moves
			for i := range j.placed {
				w.Pods = append(w.Pods, o.foreign(j, i))
			}
			continue
		}
		task, err := o.task(r, j, saved)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", j.name, err)
		}
		w.Tasks = append(w.Tasks, *task)
		for i, pod := range task.Pods {
			if j.placed[i] {
				w.Pods = append(w.Pods, pod)
			}
		}
	}
	return w, nil
}

// foreign returns a Pod that belongs to no GPUTask.
func (o *objects) foreign(j *job, index int) *corev1.Pod {
	name := j.podName(index)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: j.pods[index].Node, Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(j.shape.CPU, resource.DecimalSI), corev1.ResourceMemory: mebibytes(j.shape.Memory),
			}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// task returns a job as a GPUTask with its Pods.
func (o *objects) task(r *trial, j *job, saved bool) (*clusterview.Task, error) {
	task := o.tasks[j.name]
	if task == nil {
		task = taskObject(j)
		o.tasks[j.name] = task
		for i := range j.placed {
			o.pods[gputask.PodName(task, i)] = tenant{j, i}
		}
	}
	task.Status.Phase = v1.PhasePending
	if j.runs() {
		task.Status.Phase = v1.PhaseRunning
	}
	if last := slices.Max(j.movedAt); last >= 0 {
		task.Status.LastMove = &v1.LastMove{Time: at(last)}
	}
	since := r.now
	if !saved {
		since -= r.unsaved(j, 0)
	}
	task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: at(since).Format(time.RFC3339)}
	full := &clusterview.Task{GPUTask: task}
	for i := range j.placed {
		pod, err := o.pod(task, j, i)
		if err != nil {
			return nil, err
		}
		full.Pods = append(full.Pods, pod)
	}
	return full, nil
}

func taskObject(j *job) *v1.GPUTask {
	amount := fmt.Sprint(j.shape.GPUs)
	if j.shape.Share > 0 {
		amount = fmt.Sprintf("0.%02d", j.shape.Share)
	}
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: j.name, Namespace: namespace, UID: types.UID(j.name), CreationTimestamp: at(-saveEvery)},
		Spec: v1.GPUTaskSpec{
			CPU: fmt.Sprintf("%dm", j.shape.CPU), Memory: fmt.Sprintf("%dMi", j.shape.Memory), GPUAmount: amount,
			Replicas: new(int32(len(j.placed))), //nolint:gosec // few
		},
	}
	if len(j.shape.Models) > 0 {
		task.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1.LabelGPUModel, Operator: corev1.NodeSelectorOpIn, Values: j.shape.Models}},
			}}},
		}}}}
	}
	return task
}

// pod returns a Pod of a task, on its node.
func (o *objects) pod(task *v1.GPUTask, j *job, index int) (*corev1.Pod, error) {
	pod, err := gputask.NewPod(task, index, 0, gputask.PodDefaults{})
	if err != nil {
		return nil, err
	}
	pod.CreationTimestamp = at(-saveEvery)
	pod.UID = types.UID(pod.Name)
	if at := j.movedAt[index]; at >= 0 {
		pod.UID = types.UID(fmt.Sprintf("%s-%g", pod.Name, at))
	}
	pod.Status.Phase = corev1.PodPending
	if !j.placed[index] {
		return pod, nil
	}
	pod.Status.Phase, pod.Spec.NodeName = corev1.PodRunning, j.pods[index].Node
	assignment := inventory.Assignment{}
	name := v1.ResourceGPU
	if j.shape.Share > 0 {
		name = v1.ResourceGPUPercent
	}
	for _, card := range j.pods[index].GPUs {
		assignment.Add(v1.ContainerName, string(name), uuid(pod.Spec.NodeName, card))
	}
	text, err := assignment.String()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[inventory.AssignmentAnnotation] = text
	return pod, err
}
