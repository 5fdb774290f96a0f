// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type running struct {
	*session
	output
	taskFlags
	creation
	file string
}

func newRun(s *session) *cobra.Command {
	r := &running{session: s}
	command := &cobra.Command{
		Use:   "run (NAME | -f FILE) [flags] [-- COMMAND [ARG...]]",
		Short: "Create a task from flags",
		Long: `Create a task from flags.

Most flags are named after fields of the GPUTask's spec. For everything else, use a manifest
with -f; "run ... --dry-run=client -o yaml" prints one to start from. Flags override the
manifest; environment variables, volumes and labels are added to it.`,
		GroupID: groupTasks,
		Example: `  # Run one Pod with two GPUs
  kubectl gputask run train --gpu h100-80gb-hbm3 --gpu-amount 2 --image registry.example.com/trainer:v3 -- python train.py

  # Mount data, enlarge /dev/shm, and read a token from a Secret
  kubectl gputask run train --gpus 8 --image registry.example.com/trainer:v3 --workdir /src --pvc dataset:/data:ro --pvc checkpoints:/out \
    --shm 16Gi --env-from secret/wandb --max-runtime 12h -- torchrun --nproc-per-node=8 train.py

  # Run 100 Pods, ten at a time
  kubectl gputask run sweep --gpus 1 --completions 100 --replicas 10 --image registry.example.com/trainer:v3

  # Create a task from a manifest, with another name and more GPUs
  kubectl gputask run train-2 -f train.yaml --gpus 4

  # Run a gang of four Pods in one leaf, and wait until it is running
  kubectl gputask run big --gpu-amount 8 --replicas 4 --topology leaf=Required --wait=running

  # Print the task as the API server would create it, without creating it
  kubectl gputask run train --gpu-amount 0.5 --dry-run=server -o yaml`,
		Args:              r.args,
		ValidArgsFunction: noCompletion,
		PreRunE:           checked(r.creation.validate, r.output.validate),
		RunE: func(command *cobra.Command, args []string) error {
			names := namesBefore(command, args)
			return r.run(command.Context(), names, args[len(names):])
		},
	}
	command.Flags().StringVarP(&r.file, "filename", "f", "", "manifest of a GPUTask, which the flags override; - reads stdin")
	r.taskFlags.addTo(s, command)
	r.creation.addTo(command)
	r.addObjects(command)
	return command
}

// args requires a name before the command, unless a file may have it.
func (r *running) args(command *cobra.Command, args []string) error {
	if named := len(namesBefore(command, args)); named != 1 && (named > 1 || r.file == "") {
		return fmt.Errorf("run needs one name, got %d: kubectl gputask run NAME [flags] [-- COMMAND]", named)
	}
	return nil
}

// namesBefore returns the arguments before "--".
func namesBefore(command *cobra.Command, args []string) []string {
	if dash := command.ArgsLenAtDash(); dash >= 0 {
		return args[:dash]
	}
	return args
}

// described returns the task that the file and the flags describe.
func (r *running) described(name string, command []string) (*v1.GPUTask, error) {
	if r.file == "" {
		return r.task(name, v1.ContainerName, command)
	}
	base, err := r.readTask(r.file)
	if err != nil {
		return nil, err
	}
	over, err := r.task(name, containerOf(base), command)
	if err != nil {
		return nil, err
	}
	task, err := overlaid(base, over)
	if err != nil {
		return nil, fmt.Errorf("--filename=%s: %w", r.file, err)
	}
	if task.Name == "" {
		return nil, fmt.Errorf("--filename=%s: the GPUTask has no metadata.name: kubectl gputask run NAME -f %s", r.file, r.file)
	}
	task.ResourceVersion, task.UID, task.Status = "", "", v1.GPUTaskStatus{}
	return task, nil
}

func (r *running) run(ctx context.Context, names, command []string) error {
	task, err := r.described(strings.Join(names, ""), command)
	if err != nil {
		return err
	}
	clients, err := r.connect()
	if err != nil {
		return err
	}
	if task.Namespace == "" || ptr.Deref(r.config.Namespace, "") != "" {
		task.Namespace = clients.Namespace
	}
	created, err := r.create(ctx, clients, task)
	if err != nil {
		return fmt.Errorf("creating the task: %w", apierror.InWords(err))
	}
	if r.dryRun != dryRunClient {
		r.warnOfAbsent(ctx, clients, created)
	}
	if err := r.report(r.session, &r.output, created, "created"); err != nil || r.wait == waitNone {
		return err
	}
	return r.follow(ctx, clients, created, r.wait, r.timeout)
}
