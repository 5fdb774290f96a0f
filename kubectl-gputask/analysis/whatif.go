// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// WhatIf is whether and when a hypothetical task would fit.
type WhatIf struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	*Outlook  `json:",inline"`
	Named     `json:",inline"`
	// Ahead is how many tasks that wait already would be scheduled before it; with GPUQueues, those of its queue.
	Ahead int `json:"ahead"`
	// InQueue is the GPUQueue that it would be in; nil for none.
	InQueue *QueuePlace `json:"inQueue,omitempty"`
	// Equal is a task that waits already and asks for the same, for which gpu-scheduler has estimated the start; nil if
	// there is none.
	Equal *EqualTask `json:"equal,omitempty"`
	// DependsOn are tasks that it would wait for first; the outlook ignores them.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Task is the hypothetical task.
	Task *v1.GPUTask `json:"-"`
}

// Named is what is known of the objects that Pods name, such as volumes.
type Named struct {
	// Missing says which do not exist, each in a clause, and Commands show which there are.
	Missing  []string `json:"missing,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Unchecked are the kinds of those that the user may not read.
	Unchecked []string `json:"unchecked,omitempty"`
}

// AddCommand adds a command, once.
func (n *Named) AddCommand(command string) {
	if !slices.Contains(n.Commands, command) {
		n.Commands = append(n.Commands, command)
	}
}

// Heed takes into account that objects do not exist. Its queue decides before.
func (w *WhatIf) Heed(named Named) {
	w.Named = named
	if len(named.Missing) == 0 || w.Verdict == QueueRefuses || w.Verdict == QueueLimit || w.Verdict == Invalid {
		return
	}
	w.Outlook = &Outlook{Verdict: Missing, Problem: strings.Join(named.Missing, ", and "), Free: w.Free}
}

// EqualTask is a waiting task that asks for the same as a hypothetical one, which would be served after it.
type EqualTask struct {
	Name           string            `json:"name"`
	EstimatedStart *v1.StartEstimate `json:"estimatedStart"`
}

// WhatIf returns whether and when a hypothetical task would fit. It must be among the
// view's objects.
func (v *View) WhatIf(task *clusterview.Task) *WhatIf {
	answer := &WhatIf{Name: task.Name, Namespace: task.Namespace, Task: task.GPUTask}
	for _, dependency := range task.Spec.DependsOn {
		answer.DependsOn = append(answer.DependsOn, dependency.Name)
	}
	waiting := v.Waiting()
	for i := range waiting {
		if slices.Contains(waiting[i].Pods, task.Pods[0]) {
			answer.Ahead, answer.Outlook = i, v.Outlook(&waiting[i])
			answer.InQueue, answer.Equal = v.queuePlace(task.Pods[0]), v.equal(task)
			if own, _, _ := v.inLine(task); own != nil {
				answer.Ahead = own.rank
			}
			return answer
		}
	}
	answer.Outlook = &Outlook{Verdict: Invalid, Problem: "its Pods are not waiting"}
	return answer
}

// equal returns the last of the waiting tasks that ask for the same as a hypothetical one, of those whose start is
// estimated.
func (v *View) equal(task *clusterview.Task) *EqualTask {
	var last *EqualTask
	queue, asked := v.queues.Assign(task.Pods[0]).Queue, askedBy(task.GPUTask)
	for i := range v.Tasks {
		other := &v.Tasks[i]
		if other.UID == task.UID || len(other.Pods) == 0 || other.Status.Phase != v1.PhasePending || v.queues.Assign(other.Pods[0]).Queue != queue ||
			!equality.Semantic.DeepEqual(asked, askedBy(other.GPUTask)) {
			continue
		}
		estimate := EstimatedStart(other.GPUTask, other.Pods)
		if estimate != nil && (last == nil || last.EstimatedStart.Position < estimate.Position) {
			last = &EqualTask{Name: other.Namespace + "/" + other.Name, EstimatedStart: estimate}
		}
	}
	return last
}

// askedBy returns what of a task's spec decides about its place and its turn, beside its queue.
func askedBy(task *v1.GPUTask) *v1.GPUTaskSpec {
	spec := &task.Spec
	return &v1.GPUTaskSpec{
		GPU: spec.GPU, GPUAmount: spec.GPUAmount, GPUProfile: spec.GPUProfile, GPUMemory: spec.GPUMemory, CPU: spec.CPU, Memory: spec.Memory, NodePool: spec.NodePool, Priority: spec.Priority,
		Replicas: spec.Replicas, MinAvailable: spec.MinAvailable, Topology: spec.Topology, Roles: spec.Roles, MaxRuntimeSeconds: spec.MaxRuntimeSeconds,
	}
}

// Admission fills in a new Pod's priority as the API server does.
type Admission func(*corev1.Pod) error

// GPUResource returns the extended resource by which the Pods of tasks request whole GPUs in a
// cluster with these nodes: nvidia.com/gpu if no node offers falldio.com/gpu, but some offer
// that; see gpu-controller's --gpu-resource.
func GPUResource(nodes []*corev1.Node) corev1.ResourceName {
	offered := func(gpus corev1.ResourceName) bool {
		return slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return offers(node, gpus) })
	}
	if !offered(v1.ResourceGPU) && offered(v1.ResourceNVIDIAGPU) {
		return v1.ResourceNVIDIAGPU
	}
	return v1.ResourceGPU
}

// offers reports whether a node has GPUs that a resource counts, or MIG slices of those who give
// them out.
func offers(node *corev1.Node, gpus corev1.ResourceName) bool {
	for name, amount := range node.Status.Capacity {
		profile, ofSlices := v1.SliceProfile(name)
		if !amount.IsZero() && (name == gpus || ofSlices && name == v1.MIGResourceBeside(gpus, profile)) {
			return true
		}
	}
	return false
}

// mostPods is how many Pods a GPUTask may have by its schema. Users without the right to create tasks
// ask about ones that no API server has validated.
const mostPods = 10_000

// NewHypothetical returns a hypothetical task with its Pods, as if it were created now and its
// dependencies were met. Its Pods request whole GPUs as gpus.
func NewHypothetical(task *v1.GPUTask, gpus corev1.ResourceName, admit Admission, now metav1.Time) (*clusterview.Task, error) {
	if total := gputask.Total(task); total > mostPods {
		return nil, fmt.Errorf("it has %d Pods, a GPUTask has at most %d", total, mostPods)
	}
	imagined := &clusterview.Task{GPUTask: task.DeepCopy()}
	imagined.UID = types.UID("imagined " + task.Namespace + "/" + task.Name)
	imagined.CreationTimestamp, imagined.Status = now, v1.GPUTaskStatus{Phase: v1.PhasePending}
	imagined.Spec.Suspend, imagined.DeletionTimestamp = nil, nil
	for index := range gputask.Replicas(task) {
		pod, err := gputask.NewPod(imagined.GPUTask, index, 0, gputask.PodDefaults{Image: "any", GPUResource: gpus})
		if err != nil {
			return nil, err
		}
		pod.Namespace, pod.CreationTimestamp, pod.Status.Phase = task.Namespace, now, corev1.PodPending
		pod.UID = types.UID(fmt.Sprintf("%s %d", imagined.UID, index))
		if err := admit(pod); err != nil {
			return nil, err
		}
		imagined.Pods = append(imagined.Pods, pod)
	}
	return imagined, nil
}

// Settle binds the imagined Pods of a task that fits now to their places, so that later
// questions take them into account.
func (v *View) Settle(task *clusterview.Task, outlook *Outlook) error {
	if outlook.Verdict != Now {
		return nil
	}
	task.Status.Phase = v1.PhaseRunning
	for _, place := range outlook.Places {
		index := slices.IndexFunc(task.Pods, func(pod *corev1.Pod) bool { return pod.Name == place.Pod })
		if index < 0 {
			continue
		}
		pod := task.Pods[index]
		cards := v.Cards[place.Node]
		text, err := cards.Assignment(pod, cards.Numbered(place.GPUs))
		if err != nil {
			return fmt.Errorf("giving Pod %s its GPUs: %w", pod.Name, err)
		}
		if text != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, inventory.AssignmentAnnotation, text)
		}
		pod.Spec.NodeName, pod.Status.Phase = place.Node, corev1.PodRunning
	}
	return nil
}
