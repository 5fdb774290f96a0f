// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// errTimeout is the cause of a context whose time limit has expired.
var errTimeout = errors.New("timed out; the task continues: see `kubectl gputask explain`")

// withTimeout cancels ctx after the limit; 0 is no limit.
func (s *session) withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if limit == 0 {
		return ctx, func() { cancel(nil) }
	}
	go func() {
		if cluster.Sleep(ctx, s.Clock, limit) == nil {
			cancel(errTimeout)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// follow writes a line for each progress of a task, until it runs or is finished. A task
// that fails is an error.
func (s *session) follow(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, until string, limit time.Duration) error {
	ctx, cancel := s.withTimeout(ctx, limit)
	defer cancel()
	begin, last := s.Clock.Now(), ""
	for {
		now, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Get(ctx, task.Name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case apierrors.IsNotFound(err), err == nil && now.UID != task.UID:
			return fmt.Errorf("task %s was deleted in the meantime", task.Name)
		case err != nil:
			return fmt.Errorf("looking at task %s: %w", task.Name, err)
		}
		page := s.page()
		if line := show.ProgressLine(page, now); line != last {
			show.Progress(page, s.Clock.Since(begin), line)
			last = line
		}
		if done, err := reached(now, until); done {
			return err
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

// reached reports whether a task has reached the state that is waited for.
func reached(task *v1.GPUTask, until string) (done bool, err error) {
	switch {
	case task.Status.Phase == v1.PhaseFailed:
		return true, fmt.Errorf("task %s failed: %s", task.Name, task.Status.Message)
	case gputask.IsFinished(task):
		return true, nil
	case until == waitRunning:
		return task.Status.Phase == v1.PhaseRunning, nil
	default:
		return false, nil
	}
}
