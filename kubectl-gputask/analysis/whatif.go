// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	// Ahead is how many tasks that wait already would be scheduled before it.
	Ahead int `json:"ahead"`
	// DependsOn are tasks that it would wait for first; the outlook ignores them.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Task is the hypothetical task.
	Task *v1.GPUTask `json:"-"`
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
			return answer
		}
	}
	answer.Outlook = &Outlook{Verdict: Invalid, Problem: "its Pods are not waiting"}
	return answer
}

// Admission fills in a new Pod's priority as the API server does.
type Admission func(*corev1.Pod) error

// NewHypothetical returns a hypothetical task with its Pods, as if it were created now and its
// dependencies were met.
func NewHypothetical(task *v1.GPUTask, admit Admission, now metav1.Time) (*clusterview.Task, error) {
	imagined := &clusterview.Task{GPUTask: task.DeepCopy()}
	imagined.UID = types.UID("imagined " + task.Namespace + "/" + task.Name)
	imagined.CreationTimestamp, imagined.Status = now, v1.GPUTaskStatus{Phase: v1.PhasePending}
	imagined.Spec.Suspend, imagined.DeletionTimestamp = nil, nil
	for index := range gputask.Replicas(task) {
		pod, err := gputask.NewPod(imagined.GPUTask, index, 0, gputask.PodDefaults{Image: "any"})
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
		text, err := v.Cards[place.Node].Assignment(pod, place.GPUs)
		if err != nil {
			return fmt.Errorf("giving Pod %s its GPUs: %w", pod.Name, err)
		}
		if text != "" {
			pod.Annotations = withValue(pod.Annotations, inventory.AssignmentAnnotation, text)
		}
		pod.Spec.NodeName, pod.Status.Phase = place.Node, corev1.PodRunning
	}
	return nil
}

// withValue adds to a map that may be nil.
func withValue(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}
