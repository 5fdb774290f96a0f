// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

func newSuspend(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Stop tasks without finishing them",
		Long: `Stop tasks without finishing them.

Their running Pods are deleted, those that have succeeded stay. "resume" creates the
others again.`,
		GroupID:           groupTasks,
		Args:              someNames,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseWaiting, v1.PhasePending, v1.PhaseRunning),
		RunE: func(command *cobra.Command, names []string) error {
			return s.setSuspend(command.Context(), names, true)
		},
	}
}

func newResume(s *session) *cobra.Command {
	return &cobra.Command{
		Use:               "resume NAME...",
		Short:             "Resume suspended tasks",
		GroupID:           groupTasks,
		Args:              someNames,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseSuspended),
		RunE: func(command *cobra.Command, names []string) error {
			return s.setSuspend(command.Context(), names, false)
		},
	}
}

// setSuspend sets spec.suspend of each task, in the given order.
func (s *session) setSuspend(ctx context.Context, names []string, suspend bool) error {
	clients, err := s.connect()
	if err != nil {
		return err
	}
	api := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace)
	done, already := "resumed", "not suspended"
	if suspend {
		done, already = "suspended", "suspended already"
	}
	patch := fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend)
	for _, name := range names {
		task, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch {
		case gputask.IsFinished(task):
			return fmt.Errorf("task %s can't be %s: it has %s", name, done, task.Status.Phase)
		case gputask.SuspensionRequested(task) == suspend:
			s.printChange("gputask", name, already)
			continue
		}
		if _, err := api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return err
		}
		s.printChange("gputask", name, done)
	}
	return nil
}
