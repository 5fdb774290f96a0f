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

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
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

// creation are the flags of the commands that create tasks.
type creation struct {
	dryRun  string
	wait    string
	timeout time.Duration
}

func (c *creation) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.dryRun, "dry-run", dryRunNone, "don't create anything: client only prints the task, server has the API server validate it and fill in defaults")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&c.wait, "wait", waitNone, "show progress until the task is finished or running; the exit code is 1 if it fails")
	flags.Lookup("wait").NoOptDefVal = waitFinished
	flags.DurationVar(&c.timeout, "timeout", 0, "maximum time to wait; 0 means no limit")
	complete(command, "dry-run", fixed(dryRunNone, dryRunClient, dryRunServer))
	complete(command, "wait", fixed(waitRunning, waitFinished))
}

func (c *creation) validate() error {
	if err := oneOf("--dry-run", c.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	if c.wait != waitNone {
		if err := oneOf("--wait", c.wait, waitRunning, waitFinished); err != nil {
			return err
		}
		if c.dryRun != dryRunNone {
			return fmt.Errorf("--wait: there is nothing to wait for with --dry-run=%s", c.dryRun)
		}
	}
	if c.timeout < 0 {
		return fmt.Errorf("--timeout=%v: must not be negative", c.timeout)
	}
	return nil
}

// create creates a task, unless this is a dry run of the client.
func (c *creation) create(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) (*v1.GPUTask, error) {
	if c.dryRun == dryRunClient {
		return task, nil
	}
	options := metav1.CreateOptions{FieldManager: change.FieldManager}
	if c.dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, task, options)
}

// report writes a task that was created, or what was done.
func (c *creation) report(s *session, o *output, task *v1.GPUTask, done string) error {
	switch {
	case o.format == outputText:
		note := map[string]string{dryRunClient: " (dry run)", dryRunServer: " (server dry run)"}[c.dryRun]
		s.printChange("gputask", task.Name, done+note)
		return nil
	case c.dryRun == dryRunNone || o.format == outputName:
		return o.printObject(s.Out, task)
	}
	// The output is a manifest to build on, so it has no status.
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(task)
	if err != nil {
		return fmt.Errorf("writing the task: %w", err)
	}
	delete(fields, "status")
	manifest := &unstructured.Unstructured{Object: fields}
	manifest.SetGroupVersionKind(v1.TaskKind()) // clients drop it from the server's response
	return o.printObject(s.Out, manifest)
}
