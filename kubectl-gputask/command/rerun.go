// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type rerunning struct {
	*session
	output
	creation
	name string
}

func newRerun(s *session) *cobra.Command {
	r := &rerunning{session: s}
	command := &cobra.Command{
		Use:   "rerun NAME...",
		Short: "Run finished tasks again",
		Long: `Run finished tasks again.

Creates a new task with the spec, labels and annotations of the old one, which does not
change. The name of the new task has the number of the run: train-r2 and train-r3 follow
train.`,
		GroupID: groupTasks,
		Example: `  kubectl gputask rerun train
  kubectl gputask rerun train --name train-again --wait

  # Print the new task without creating it, for example to edit it
  kubectl gputask rerun train --dry-run=client -o yaml`,
		Args:              someNames,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseSucceeded, v1.PhaseFailed),
		PreRunE:           checked(r.creation.validate, r.output.validate),
		RunE:              s.onCluster(r.run),
	}
	command.Flags().StringVar(&r.name, "name", "", "name of the new task")
	complete(command, "name", noCompletion)
	r.creation.addTo(command)
	r.addObjects(command)
	return command
}

func (r *rerunning) run(ctx context.Context, clients *cluster.Clients, args []string) error {
	names, failures := taskNames(args)
	if r.name != "" && len(args) > 1 {
		return fmt.Errorf("--name=%s: can only be used with one task, got %d", r.name, len(args))
	}
	var created []*v1.GPUTask
	for _, name := range names {
		task, err := r.rerun(ctx, clients, name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		created = append(created, task)
	}
	if r.wait == waitNone {
		return joined(failures)
	}
	for _, task := range created {
		if err := r.follow(ctx, clients, task, r.wait, r.timeout); err != nil {
			failures = append(failures, err)
		}
	}
	return joined(failures)
}

// rerun creates one task anew.
func (r *rerunning) rerun(ctx context.Context, clients *cluster.Clients, name string) (*v1.GPUTask, error) {
	old, err := taskNamed(ctx, clients, name)
	if err != nil {
		return nil, err
	}
	created, err := change.Rerun(ctx, clients, old, r.name, func(task *v1.GPUTask) (*v1.GPUTask, error) { return r.create(ctx, clients, task) })
	if err != nil {
		return nil, err
	}
	return created, r.report(r.session, &r.output, created, "created from "+name)
}
