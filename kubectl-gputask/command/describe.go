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
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type description struct {
	*session
	output
	selection
}

func newDescribe(s *session) *cobra.Command {
	d := &description{session: s}
	command := &cobra.Command{
		Use:               "describe (NAME... | -l SELECTOR | --all)",
		Aliases:           []string{"show"},
		Short:             "Show all of a task: its Pods, their GPUs, its conditions and events",
		GroupID:           groupTasks,
		Args:              d.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(d.validate),
		RunE:              s.onCluster(d.run),
	}
	d.selection.addTo(s, command)
	d.addObjects(command)
	return command
}

func (d *description) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	tasks, failures := d.find(ctx, d.session, clients, names)
	if !d.isText() {
		if err := d.printTasks(d.Out, tasks, d.several(names)); err != nil {
			failures = append(failures, err)
		}
		return joined(failures)
	}
	for i := range tasks {
		if i > 0 {
			fmt.Fprintln(d.Out)
		}
		if err := d.write(ctx, clients, &tasks[i]); err != nil {
			failures = append(failures, err)
		}
	}
	return joined(failures)
}

func (d *description) write(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) error {
	pods, err := cluster.PodsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	events, err := eventsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	warnings, err := cluster.PodWarnings(ctx, clients, task.Namespace)
	if err != nil {
		return fmt.Errorf("listing the events of Pods of task %s: %w", task.Name, err)
	}
	show.Describe(d.page(), &show.Description{Task: task, Pods: pods, Events: events, Warnings: analysis.PodWarnings(warnings, uidsOf(pods))})
	return nil
}

func uidsOf(pods []*corev1.Pod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i := range pods {
		uids[i] = pods[i].UID
	}
	return uids
}

// eventsOf returns the events of a task, the oldest first.
func eventsOf(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) ([]corev1.Event, error) {
	events, err := cluster.Events(ctx, clients, task.Namespace, task.UID)
	if err != nil {
		return nil, fmt.Errorf("listing the events of task %s: %w", task.Name, err)
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(analysis.TimeOf(&a).Compare(analysis.TimeOf(&b)), cmp.Compare(a.Name, b.Name))
	})
	return events, nil
}
