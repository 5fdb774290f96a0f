// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
)

type whatIf struct {
	*session
	output
	clusterFlags
	files []string
}

func newWhatIf(s *session) *cobra.Command {
	w := &whatIf{session: s}
	command := &cobra.Command{
		Use:   "whatif -f FILE",
		Short: "Check whether and when a task would fit, without creating it",
		Long: `Check whether and when a task would fit, without creating it: now, after moves of running
tasks, when tasks with a deadline have ended, or never.

FILE is anything that "kubectl apply -f" accepts: YAML or JSON, several documents, lists, or a
folder of such files. Objects of other kinds are skipped. Each task is checked as if the tasks
before it that fit now had already been created. The API server validates the tasks as
"kubectl apply --dry-run=server" does. Nothing in the cluster is changed.`,
		GroupID: groupCluster,
		Example: `  kubectl gputask whatif -f task.yaml
  kubectl gputask run big --gpu-amount 8 --replicas 4 --dry-run -o yaml | kubectl gputask whatif -f -`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE:              func(command *cobra.Command, _ []string) error { return w.run(command.Context()) },
	}
	command.Flags().StringSliceVarP(&w.files, "filename", "f", nil, "file or folder with GPUTasks, or - for stdin; may be repeated")
	w.clusterFlags.addTo(command)
	w.output.addTo(command)
	return command
}

func (w *whatIf) run(ctx context.Context) error {
	if err := w.validate(); err != nil {
		return err
	}
	if len(w.files) == 0 {
		return errors.New("--filename: must name a file with GPUTasks, or be - for stdin")
	}
	manifests, err := w.readManifests(w.files...)
	if err != nil {
		return err
	}
	clients, observed, err := w.observe(ctx, &w.clusterFlags)
	if err != nil {
		return err
	}
	answers := make([]*analysis.WhatIf, 0, len(manifests.Tasks))
	for _, manifest := range manifests.Tasks {
		if manifest.Namespace == "" {
			manifest.Namespace = clients.Namespace
		}
		checked, problem := whatif.Check(ctx, clients, manifest)
		if problem != nil {
			return fmt.Errorf("task %s: %w", manifest.Name, problem)
		}
		named, err := manifests.Look(ctx, clients, checked)
		if err != nil {
			return fmt.Errorf("task %s: %w", manifest.Name, err)
		}
		_, answer, err := whatif.Ask(observed, checked, named)
		if err != nil {
			return fmt.Errorf("task %s: %w", manifest.Name, err)
		}
		answers = append(answers, answer)
	}
	for _, skipped := range manifests.Skipped {
		fmt.Fprintf(w.ErrOut, "Skipped: %s\n", skipped)
	}
	if !w.isText() {
		return w.printValue(w.Out, answers)
	}
	showEach(w.session, answers, show.WhatIf)
	w.noteUnknownQueues(observed)
	return nil
}
