// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type deletion struct {
	*session
	selector string
	all      bool
	ignore   bool
	wait     bool
	timeout  time.Duration
}

func newDelete(s *session) *cobra.Command {
	d := &deletion{session: s}
	command := &cobra.Command{
		Use:   "delete (NAME... | -l SELECTOR | --all)",
		Short: "Delete tasks and their Pods",
		Long: `Delete tasks and their Pods.

By default it returns when the Pods are gone as well, so that their GPUs are free.`,
		GroupID:           groupTasks,
		ValidArgsFunction: s.completeTasks(0),
		RunE:              func(command *cobra.Command, names []string) error { return d.run(command.Context(), names) },
	}
	flags := command.Flags()
	flags.StringVarP(&d.selector, "selector", "l", "", "tasks with these labels, for example team=vision")
	flags.BoolVar(&d.all, "all", false, "all tasks of the namespace")
	flags.BoolVar(&d.ignore, "ignore-not-found", false, "a task that does not exist is no error")
	flags.BoolVar(&d.wait, "wait", true, "wait until the tasks and their Pods are gone")
	flags.DurationVar(&d.timeout, "timeout", 0, "maximum time to wait; 0 means no limit")
	return command
}

func (d *deletion) run(ctx context.Context, names []string) error {
	selections := 0
	for _, given := range []bool{len(names) > 0, d.selector != "", d.all} {
		if given {
			selections++
		}
	}
	if selections != 1 {
		return errors.New("delete needs names, or -l SELECTOR, or --all, and only one of them")
	}
	clients, err := d.connect()
	if err != nil {
		return err
	}
	tasks, err := d.find(ctx, clients, names)
	if err != nil {
		return err
	}
	api := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace)
	for i := range tasks {
		options := metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &tasks[i].UID},
			PropagationPolicy: new(metav1.DeletePropagationBackground),
		}
		if err := api.Delete(ctx, tasks[i].Name, options); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		d.printChange("gputask", tasks[i].Name, "deleted")
	}
	if !d.wait || len(tasks) == 0 {
		return nil
	}
	ctx, cancel := d.withTimeout(ctx, d.timeout)
	defer cancel()
	return d.waitUntilGone(ctx, clients, tasks)
}

func (d *deletion) find(ctx context.Context, clients *cluster.Clients, names []string) ([]v1.GPUTask, error) {
	api := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace)
	if len(names) == 0 {
		list, err := api.List(ctx, metav1.ListOptions{LabelSelector: d.selector})
		if err != nil {
			return nil, fmt.Errorf("listing gputasks: %w", err)
		}
		if len(list.Items) == 0 {
			fmt.Fprintf(d.ErrOut, "No tasks found in namespace %s.\n", clients.Namespace)
		}
		return list.Items, nil
	}
	var tasks []v1.GPUTask
	for _, name := range names {
		task, err := api.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && d.ignore {
			continue
		}
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, *task)
	}
	return tasks, nil
}

// waitUntilGone waits until the tasks and the Pods that they control are gone.
func (d *deletion) waitUntilGone(ctx context.Context, clients *cluster.Clients, tasks []v1.GPUTask) error {
	reported := -1
	for {
		remaining, err := countRemaining(ctx, clients, tasks)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case remaining == 0:
			return nil
		}
		if remaining != reported && reported >= 0 {
			fmt.Fprintf(d.ErrOut, "waiting until %s gone\n", show.Count(remaining, "object")+" "+isAre(remaining))
		}
		reported = remaining
		if err := d.pause(ctx); err != nil {
			return err
		}
	}
}

// countRemaining counts the tasks that still exist and their Pods.
func countRemaining(ctx context.Context, clients *cluster.Clients, tasks []v1.GPUTask) (remaining int, err error) {
	for i := range tasks {
		pods, err := podsOf(ctx, clients, &tasks[i])
		if err != nil {
			return 0, err
		}
		remaining += len(pods)
		task, err := clients.Tasks.FalldioV1().GPUTasks(tasks[i].Namespace).Get(ctx, tasks[i].Name, metav1.GetOptions{})
		if err == nil && task.UID == tasks[i].UID {
			remaining++
		} else if ignoreNotFound(err) != nil {
			return 0, err
		}
	}
	return remaining, nil
}

func isAre(count int) string {
	if count == 1 {
		return "is"
	}
	return "are"
}

// podsOf returns the Pods that a task controls, ordered by index.
func podsOf(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) ([]corev1.Pod, error) {
	list, err := clients.Kube.CoreV1().Pods(task.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + task.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of task %s: %w", task.Name, err)
	}
	return cluster.ControlledBy(list.Items, task), nil
}
