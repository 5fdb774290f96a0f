// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type listing struct {
	*session
	output
	selector string
	all      bool
}

func newList(s *session) *cobra.Command {
	l := &listing{session: s}
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List tasks",
		GroupID: groupTasks,
		Args:    cobra.NoArgs,
		Example: `  # Tasks of the namespace, and of all namespaces with all columns
  kubectl gputask list
  kubectl gputask list -A -o wide`,
		RunE: func(command *cobra.Command, _ []string) error { return l.run(command.Context()) },
	}
	command.Flags().StringVarP(&l.selector, "selector", "l", "", "only tasks with these labels, for example team=vision")
	command.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "tasks of all namespaces")
	l.addTo(command, outputWide, outputJSON, outputYAML, outputName)
	return command
}

func (l *listing) run(ctx context.Context) error {
	if err := l.validate(); err != nil {
		return err
	}
	clients, err := l.connect()
	if err != nil {
		return err
	}
	namespace := clients.Namespace
	if l.all {
		namespace = metav1.NamespaceAll
	}
	tasks, err := clients.Tasks.FalldioV1().GPUTasks(namespace).List(ctx, metav1.ListOptions{LabelSelector: l.selector})
	if err != nil {
		return fmt.Errorf("listing gputasks: %w", err)
	}
	slices.SortStableFunc(tasks.Items, func(a, b v1.GPUTask) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if !l.isText() {
		return l.printObject(l.Out, tasks)
	}
	if len(tasks.Items) == 0 {
		where := "in namespace " + namespace
		if l.all {
			where = "in any namespace"
		}
		fmt.Fprintf(l.ErrOut, "No tasks found %s.\n", where)
		return nil
	}
	show.Tasks(l.page(), tasks.Items, show.TaskColumns{Namespaces: l.all, Wide: l.format == outputWide})
	return nil
}
