// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

func newSuspend(s *session) *cobra.Command {
	choice := &selection{}
	command := &cobra.Command{
		Use:   "suspend (NAME... | -l SELECTOR | --all)",
		Short: "Stop tasks until they are resumed",
		Long: `Stop tasks until they are resumed.

Running Pods are deleted; succeeded Pods stay. "resume" creates the deleted Pods again.
With -l and --all, finished tasks are skipped.`,
		GroupID:           groupTasks,
		Args:              choice.args,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseWaiting, v1.PhasePending, v1.PhaseRunning),
		RunE:              s.setSuspend(choice, true),
	}
	choice.addTo(s, command)
	return command
}

func newResume(s *session) *cobra.Command {
	choice := &selection{}
	command := &cobra.Command{
		Use:               "resume (NAME... | -l SELECTOR | --all)",
		Short:             "Resume suspended tasks",
		GroupID:           groupTasks,
		Args:              choice.args,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseSuspended),
		RunE:              s.setSuspend(choice, false),
	}
	choice.addTo(s, command)
	return command
}

// setSuspend returns the RunE of a command that sets spec.suspend of each chosen task.
func (s *session) setSuspend(choice *selection, suspend bool) func(*cobra.Command, []string) error {
	done, undone := "resumed", "not suspended"
	if suspend {
		done, undone = "suspended", "suspended already"
	}
	return s.onCluster(func(ctx context.Context, clients *cluster.Clients, names []string) error {
		tasks, failures := choice.find(ctx, s, clients, names)
		for i := range tasks {
			if len(names) == 0 && gputask.IsFinished(&tasks[i]) {
				continue
			}
			already, err := change.Suspend(ctx, clients, &tasks[i], suspend)
			switch {
			case err != nil:
				failures = append(failures, err)
			case already:
				s.printChange("gputask", tasks[i].Name, undone)
			default:
				s.printChange("gputask", tasks[i].Name, done)
			}
		}
		return joined(failures)
	})
}
