// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

type explanation struct {
	*session
	output
	clusterFlags
}

func newExplain(s *session) *cobra.Command {
	e := &explanation{session: s}
	command := &cobra.Command{
		Use:   "explain NAME",
		Short: "Explain why a task waits, and what would let it start",
		Long: `Explain why a task waits, and what would let it start.

What it asks for, what is free of that, who is ahead of it, the smallest changes that
would let it start, moves of running tasks that would make room, and when others end
that have a deadline. The rescheduler is assumed to run with its default options.`,
		GroupID:           groupCluster,
		Args:              oneName,
		ValidArgsFunction: s.completeTasks(1),
		RunE:              func(command *cobra.Command, args []string) error { return e.run(command.Context(), args[0]) },
	}
	e.clusterFlags.addTo(command)
	e.output.addTo(command, outputJSON, outputYAML)
	return command
}

func (e *explanation) run(ctx context.Context, name string) error {
	if err := e.validate(); err != nil {
		return err
	}
	clients, observed, err := e.observe(ctx, &e.clusterFlags)
	if apierrors.IsForbidden(err) {
		return e.taskOnly(ctx, name, err)
	}
	if err != nil {
		return err
	}
	answer, found := analysis.NewView(&observed.Objects, nil).Explain(clients.Namespace, name)
	if !found {
		return fmt.Errorf("there is no task %q in namespace %s", name, clients.Namespace)
	}
	return e.write(answer)
}

// taskOnly explains a task by its own status and Pods, for users without the rights to
// list the whole cluster.
func (e *explanation) taskOnly(ctx context.Context, name string, forbidden error) error {
	clients, err := e.connect()
	if err != nil {
		return err
	}
	task, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := podsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	if err := e.write(analysis.Alone(task, pods)); err != nil {
		return err
	}
	fmt.Fprintf(e.ErrOut, "\nOnly the task's own status is shown, more is not allowed: %v\n", forbidden)
	return nil
}

func (e *explanation) write(answer *analysis.Explanation) error {
	if !e.isText() {
		answer.Task = answer.Task.DeepCopy()
		answer.Task.ManagedFields = nil
		return e.printValue(e.Out, answer)
	}
	show.Explanation(e.page(), answer)
	return nil
}
