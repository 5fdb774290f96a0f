// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// The names of actions.
const (
	ActionSuspend = "suspend"
	ActionResume  = "resume"
	ActionDelete  = "delete"
	ActionRerun   = "rerun"
	ActionApprove = "approve"
	ActionAbort   = "abort"
)

// DetailsOf returns what a task, its Pods, and what is known of those that are gone say; not its explanation and its
// Events.
func DetailsOf(task *clusterview.Task, gone []Life) *TaskDetails {
	return &TaskDetails{
		Task: *TaskRow(task), Manifest: Manifest(task.GPUTask), Members: members(task, gone), Conditions: append([]metav1.Condition{}, task.Status.Conditions...),
		Events: []Event{}, Actions: actions(task.GPUTask),
	}
}

// Manifest returns a task as YAML, as its user may have written it.
func Manifest(task *v1.GPUTask) string {
	annotations := maps.Clone(task.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	shown := map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": v1.TaskKind().Kind, "spec": task.Spec,
		"metadata": metav1.ObjectMeta{Name: task.Name, Namespace: task.Namespace, Labels: task.Labels, Annotations: annotations},
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return "# The manifest can't be written: " + err.Error()
	}
	return string(text)
}

// members returns the Pods of a task by name, with those before them.
func members(task *clusterview.Task, gone []Life) []Member {
	byName, lives := map[string]*Member{}, map[string][]Life{}
	of := func(name string) *Member {
		if byName[name] == nil {
			byName[name] = &Member{Name: name, Phase: "Gone", Containers: []string{}}
		}
		return byName[name]
	}
	for i := range gone {
		of(gone[i].Pod)
		lives[gone[i].Pod] = append(lives[gone[i].Pod], gone[i])
	}
	for _, pod := range task.Pods {
		member := of(pod.Name)
		member.Node, member.Phase, member.Reason = pod.Spec.NodeName, string(pod.Status.Phase), pod.Status.Reason
		if pod.DeletionTimestamp != nil {
			member.Phase = "Terminating"
		}
		for j := range pod.Spec.Containers {
			member.Containers = append(member.Containers, pod.Spec.Containers[j].Name)
		}
		lives[pod.Name] = append(lives[pod.Name], LifeOf(pod, nil))
	}
	list := make([]Member, 0, len(byName))
	for name, member := range byName {
		member.Spans = Spans(lives[name], &task.Status)
		list = append(list, *member)
	}
	slices.SortFunc(list, func(a, b Member) int { return analysis.ComparePodNames(a.Name, b.Name) })
	return list
}

// AddGPUs adds which GPUs the members have.
func (d *TaskDetails) AddGPUs(uses []analysis.Place) {
	for i := range d.Members {
		for _, use := range uses {
			if use.Pod == d.Members[i].Name && use.Node == d.Members[i].Node {
				d.Members[i].GPUs, d.Members[i].Slices = use.GPUs, use.Slices
			}
		}
	}
}

// EventOf returns an Event.
func EventOf(event *corev1.Event, at time.Time) Event {
	count := event.Count
	if event.Series != nil {
		count = event.Series.Count
	}
	return Event{
		Time: metav1.NewTime(at), Count: int(max(1, count)), Type: event.Type, Object: event.InvolvedObject.Kind + " " + event.InvolvedObject.Name,
		Reason: event.Reason, Message: event.Message,
	}
}

// actions returns what can be done with a task now.
func actions(task *v1.GPUTask) []Action {
	command := func(name string) string {
		return fmt.Sprintf("kubectl gputask %s %s --namespace %s", name, task.Name, task.Namespace)
	}
	var list []Action
	switch {
	case gputask.IsFinished(task):
		list = append(list, Action{Name: ActionRerun, Command: command(ActionRerun), Question: "Create a new task with the same spec?"})
	case gputask.SuspensionRequested(task):
		list = append(list, Action{Name: ActionResume, Command: command(ActionResume), Question: "Resume the task, so that its Pods are created again?"})
	default:
		list = append(list, Action{
			Name: ActionSuspend, Command: command(ActionSuspend), Question: "Suspend the task? Its running Pods are deleted; what they have not saved is lost.",
		})
	}
	return append(list, Action{Name: ActionDelete, Command: command(ActionDelete), Question: "Delete the task and its Pods? This can't be undone."})
}
