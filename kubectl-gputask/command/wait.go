// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// waitDeleted waits until there is no such task any more; waitPhase is followed by a phase.
const (
	waitDeleted = "deleted"
	waitPhase   = "phase="
)

type waiting struct {
	*session
	selection
	until   string
	timeout time.Duration
}

func newWait(s *session) *cobra.Command {
	w := &waiting{session: s}
	command := &cobra.Command{
		Use:   "wait (NAME... | -l SELECTOR | --all) [--for=CONDITION]",
		Short: "Wait until tasks run, have finished or are gone",
		Long: `Wait until tasks run, have finished or are gone, and say so for each.

The exit code is 0 if all of them have got there; 1 if one of them can't any more, because it
has failed, has ended otherwise or was deleted, or after an error; and 124 if --timeout is over.`,
		GroupID: groupTasks,
		Example: `  # Until all tasks of a sweep have finished
  kubectl gputask wait -l sweep=one

  # Until a task runs, but not for more than an hour
  kubectl gputask wait train --for=running --timeout=1h`,
		Args:              w.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(w.validate),
		RunE:              s.onCluster(w.run),
	}
	w.addTo(s, command)
	flags := command.Flags()
	flags.StringVar(&w.until, "for", waitFinished, "running, finished, deleted, or phase=PHASE, for example phase=pending")
	flags.DurationVar(&w.timeout, "timeout", 0, "maximum time to wait; 0 means no limit")
	complete(command, "for", fixed(w.conditions()...))
	return command
}

// conditions are the values of --for.
func (w *waiting) conditions() []string {
	words := []string{waitRunning, waitFinished, waitDeleted}
	for _, phase := range phaseNames() {
		words = append(words, waitPhase+phase)
	}
	return words
}

func (w *waiting) validate() error {
	w.until = strings.ToLower(w.until)
	if w.timeout < 0 {
		return fmt.Errorf("--timeout=%v: must not be negative", w.timeout)
	}
	return oneOf("--for", w.until, w.conditions()...)
}

func (w *waiting) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	ctx, cancel := w.withTimeout(ctx, w.timeout)
	defer cancel()
	left, failures := w.find(ctx, w.session, clients, names)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.until == waitDeleted {
		failures = slices.DeleteFunc(failures, cluster.IsAbsent)
	}
	for {
		left = slices.DeleteFunc(left, func(task v1.GPUTask) bool {
			done, err := w.look(ctx, clients, &task)
			switch {
			case ctx.Err() != nil:
				return false
			case err != nil:
				failures = append(failures, err)
			case done:
				w.printChange("gputask", task.Name, strings.TrimPrefix(w.until, waitPhase))
			}
			return done || err != nil
		})
		if len(left) == 0 {
			return joined(failures)
		}
		if w.pause(ctx) != nil {
			return joined(append(failures, context.Cause(ctx)))
		}
	}
}

// look reports whether a task is where it is waited for. It is an error if it can't get there any more.
func (w *waiting) look(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) (done bool, err error) {
	now, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Get(ctx, task.Name, metav1.GetOptions{})
	gone := cluster.IsAbsent(err) || err == nil && now.UID != task.UID
	phase, waitsForPhase := strings.CutPrefix(w.until, waitPhase)
	switch {
	case gone && w.until == waitDeleted:
		return true, nil
	case gone:
		return false, fmt.Errorf("task %s was deleted in the meantime", task.Name)
	case err != nil && apierror.IsTransient(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at task %s: %w", task.Name, err)
	case w.until == waitDeleted:
		return false, nil
	case !waitsForPhase:
		return reached(now, w.until)
	case strings.EqualFold(string(now.Status.Phase), phase):
		return true, nil
	case gputask.IsFinished(now):
		return false, fmt.Errorf("task %s has %s: it won't be %s any more", task.Name, strings.ToLower(string(now.Status.Phase)), phase)
	}
	return false, nil
}
