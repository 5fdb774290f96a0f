// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func newDescribe(s *session) *cobra.Command {
	o := &output{}
	command := &cobra.Command{
		Use:               "describe NAME",
		Aliases:           []string{"show"},
		Short:             "Show all of a task: its Pods, their GPUs, its conditions and events",
		GroupID:           groupTasks,
		Args:              oneName,
		ValidArgsFunction: s.completeTasks(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.describe(command.Context(), args[0], o)
		},
	}
	o.addTo(command, outputJSON, outputYAML, outputName)
	return command
}

func (s *session) describe(ctx context.Context, name string, o *output) error {
	if err := o.validate(); err != nil {
		return err
	}
	clients, err := s.connect()
	if err != nil {
		return err
	}
	task, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !o.isText() {
		return o.printObject(s.Out, task)
	}
	pods, err := podsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	events, err := eventsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	show.Describe(s.page(), &show.Description{Task: task, Pods: pods, Events: events})
	return nil
}

// eventsOf returns the events of a task, the oldest first.
func eventsOf(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(task.UID)}.AsSelector().String()
	list, err := clients.Kube.CoreV1().Events(task.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the events of task %s: %w", task.Name, err)
	}
	events := slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != task.UID })
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(show.TimeOf(&a).Compare(show.TimeOf(&b)), cmp.Compare(a.Name, b.Name))
	})
	return events, nil
}
