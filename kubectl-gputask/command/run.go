// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The values of --dry-run and --wait.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
	waitNone     = ""
	waitRunning  = "running"
	waitFinished = "finished"
)

type running struct {
	*session
	output
	taskFlags
	dryRun  string
	wait    string
	timeout time.Duration
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
		RunE:              func(command *cobra.Command, args []string) error { return r.run(command.Context(), args) },
	}
	r.taskFlags.addTo(s, command)
	flags := command.Flags()
	flags.StringVar(&r.dryRun, "dry-run", dryRunNone, "create nothing: client only writes the task, server has the API server check it and fill in defaults")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&r.wait, "wait", waitNone, "show the task's progress until it is finished, or running; the exit code is 1 if it fails")
	flags.Lookup("wait").NoOptDefVal = waitFinished
	flags.DurationVar(&r.timeout, "timeout", 0, "maximum time to wait; 0 means no limit")
	complete(command, "dry-run", fixed(dryRunNone, dryRunClient, dryRunServer))
	complete(command, "wait", fixed(waitRunning, waitFinished))
	r.output.addTo(command, outputJSON, outputYAML, outputName)
	return command
}

func (r *running) run(ctx context.Context, args []string) error {
	if err := r.validate(); err != nil {
		return err
	}
	task, err := r.task(args[0], args[1:])
	if err != nil {
		return err
	}
	clients, err := r.connect()
	if err != nil {
		return err
	}
	task.Namespace = clients.Namespace
	if r.dryRun == dryRunClient {
		return r.created(task, " (dry run)")
	}
	options := metav1.CreateOptions{FieldManager: fieldManager}
	note := ""
	if r.dryRun == dryRunServer {
		options.DryRun, note = []string{metav1.DryRunAll}, " (server dry run)"
	}
	created, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, task, options)
	if err != nil {
		return fmt.Errorf("creating the task: %w", err)
	}
	if err := r.created(created, note); err != nil || r.dryRun != dryRunNone || r.wait == waitNone {
		return err
	}
	return r.follow(ctx, clients, created, r.wait, r.timeout)
}

// fieldManager is the manager that the API server records for the fields set here.
const fieldManager = "kubectl-gputask"

func (r *running) validate() error {
	if err := oneOf("--dry-run", r.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	if r.wait != waitNone {
		if err := oneOf("--wait", r.wait, waitRunning, waitFinished); err != nil {
			return err
		}
		if r.dryRun != dryRunNone {
			return fmt.Errorf("--wait: there is nothing to wait for with --dry-run=%s", r.dryRun)
		}
	}
	if r.timeout < 0 {
		return fmt.Errorf("--timeout=%v: must not be negative", r.timeout)
	}
	return r.output.validate()
}

func (r *running) created(task *v1.GPUTask, note string) error {
	switch {
	case r.format == outputText:
		r.printChange("gputask", task.Name, "created"+note)
		return nil
	case r.dryRun == dryRunNone || r.format == outputName:
		return r.printObject(r.Out, task)
	}
	// The output is a manifest to build on, so it has no status.
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(task)
	if err != nil {
		return fmt.Errorf("writing the task: %w", err)
	}
	delete(fields, "status")
	manifest := &unstructured.Unstructured{Object: fields}
	manifest.SetGroupVersionKind(v1.TaskKind()) // clients drop it from the server's response
	return r.printObject(r.Out, manifest)
}
