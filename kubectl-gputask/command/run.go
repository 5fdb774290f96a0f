// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type running struct {
	*session
	output
	taskFlags
	creation
}

func newRun(s *session) *cobra.Command {
	r := &running{session: s}
	command := &cobra.Command{
		Use:   "run NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Create a task from flags",
		Long: `Create a task from flags.

The flags have the names of the fields of the GPUTask's spec; what they can't say is
written as a manifest: "run ... --dry-run=client -o yaml" is a good start of one.`,
		GroupID: groupTasks,
		Example: `  # One Pod with two GPUs
  kubectl gputask run train --gpu h100-80gb-hbm3 --gpu-amount 2 --image registry.example.com/trainer:v3 -- python train.py

  # A gang of four Pods in one leaf, and wait until it runs
  kubectl gputask run big --gpu-amount 8 --replicas 4 --topology leaf=Required --wait=running

  # What would be created, checked by the API server
  kubectl gputask run train --gpu-amount 0.5 --dry-run=server -o yaml`,
		Args: func(command *cobra.Command, args []string) error {
			named := len(args)
			if dash := command.ArgsLenAtDash(); dash >= 0 {
				named = dash
			}
			if named != 1 {
				return fmt.Errorf("run needs one name, got %d: kubectl gputask run NAME [flags] [-- COMMAND]", named)
			}
			return nil
		},
		ValidArgsFunction: noCompletion,
		PreRunE:           checked(r.creation.validate, r.output.validate),
		RunE:              func(command *cobra.Command, args []string) error { return r.run(command.Context(), args) },
	}
	r.taskFlags.addTo(s, command)
	r.creation.addTo(command)
	r.addObjects(command)
	return command
}

func (r *running) run(ctx context.Context, args []string) error {
	task, err := r.task(args[0], args[1:])
	if err != nil {
		return err
	}
	clients, err := r.connect()
	if err != nil {
		return err
	}
	task.Namespace = clients.Namespace
	created, err := r.create(ctx, clients, task)
	if err != nil {
		return fmt.Errorf("creating the task: %w", err)
	}
	if err := r.report(r.session, &r.output, created, "created"); err != nil || r.wait == waitNone {
		return err
	}
	return r.follow(ctx, clients, created, r.wait, r.timeout)
}
