// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
)

type deletion struct {
	*session
	selection
	ignore  bool
	wait    bool
	timeout time.Duration
}

func newDelete(s *session) *cobra.Command {
	d := &deletion{session: s}
	command := &cobra.Command{
		Use:     "delete (NAME... | -l SELECTOR | --all)",
		Aliases: []string{"cancel"},
		Short:   "Delete tasks and their Pods; also called cancel",
		Long: `Delete tasks and their Pods.

Its other name is "cancel": as after Slurm's scancel, the task has stopped, is in no list any
more and does not come back; "usage" still counts what it has used. "suspend" stops a task that is to go on later.

By default it returns when the Pods are gone as well, so that their GPUs are free. A task
that can't be deleted does not keep the others.`,
		GroupID:           groupTasks,
		Args:              d.args,
		ValidArgsFunction: s.completeTasks(0),
		RunE:              s.onCluster(d.run),
	}
	flags := command.Flags()
	d.addTo(s, command)
	flags.BoolVar(&d.ignore, "ignore-not-found", false, "a task that does not exist is no error")
	flags.BoolVar(&d.wait, "wait", true, "wait until the tasks and their Pods are gone")
	flags.DurationVar(&d.timeout, "timeout", 0, "maximum time to wait; 0 means no limit")
	return command
}

func (d *deletion) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	tasks, failures := d.find(ctx, d.session, clients, names)
	if d.ignore {
		failures = slices.DeleteFunc(failures, cluster.IsAbsent)
	}
	var deleted []v1.GPUTask
	for i := range tasks {
		if err := change.Delete(ctx, clients, &tasks[i]); err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, err)
			continue
		}
		d.printChange("gputask", tasks[i].Name, "deleted")
		deleted = append(deleted, tasks[i])
	}
	if d.wait && len(deleted) > 0 {
		ctx, cancel := d.withTimeout(ctx, d.timeout)
		defer cancel()
		if err := d.waitUntilGone(ctx, clients, deleted); err != nil {
			failures = append(failures, err)
		}
	}
	return joined(failures)
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
			fmt.Fprintf(d.ErrOut, "waiting until %s gone\n", plural.Count(remaining, "object")+" "+plural.Verb(remaining, "is", "are"))
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
		pods, err := cluster.PodsOf(ctx, clients, &tasks[i])
		if err != nil {
			return 0, err
		}
		remaining += len(pods)
		task, err := clients.Tasks.FalldioV1().GPUTasks(tasks[i].Namespace).Get(ctx, tasks[i].Name, metav1.GetOptions{})
		if err == nil && task.UID == tasks[i].UID {
			remaining++
		} else if err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	return remaining, nil
}
