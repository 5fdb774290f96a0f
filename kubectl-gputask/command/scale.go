// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
)

type scaling struct {
	*session
	selection
	replicas int32
}

func newScale(s *session) *cobra.Command {
	c := &scaling{session: s}
	command := &cobra.Command{
		Use:   "scale (NAME... | -l SELECTOR | --all) --replicas COUNT",
		Short: "Set the number of Pods of a task",
		Long: `Set the number of Pods of an elastic gang, up to its maxReplicas, or the number of Pods of an
array that run at a time. Other tasks can't be scaled.`,
		GroupID:           groupTasks,
		Args:              c.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(c.validate),
		RunE:              s.onCluster(c.run),
	}
	c.addTo(s, command)
	command.Flags().Int32Var(&c.replicas, "replicas", 0, "number of Pods")
	complete(command, "replicas", noCompletion)
	return command
}

func (c *scaling) validate() error {
	if c.replicas < 1 {
		return errors.New("--replicas: must be at least 1; `kubectl gputask suspend` stops a task")
	}
	return nil
}

func (c *scaling) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	tasks, failures := c.find(ctx, c.session, clients, names)
	for i := range tasks {
		if err := change.Scale(ctx, clients, &tasks[i], c.replicas); err != nil {
			failures = append(failures, err)
			continue
		}
		c.printChange("gputask", tasks[i].Name, "scaled")
	}
	return joined(failures)
}
