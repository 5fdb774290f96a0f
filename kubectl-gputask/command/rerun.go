// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

type rerunning struct {
	*session
	output
	creation
	name string
}

func newRerun(s *session) *cobra.Command {
	r := &rerunning{session: s}
	command := &cobra.Command{
		Use:   "rerun NAME...",
		Short: "Create tasks anew that have finished",
		Long: `Create tasks anew that have finished.

The new task has the spec, the labels and the annotations of the old one, which stays as
it is. Its name is that of the old one with the number of the run: train, train-r2,
train-r3.`,
		GroupID: groupTasks,
		Example: `  kubectl gputask rerun train
  kubectl gputask rerun train --name train-again --wait

  # What would be created, for example to change it
  kubectl gputask rerun train --dry-run=client -o yaml`,
		Args:              someNames,
		ValidArgsFunction: s.completeTasks(0, v1.PhaseSucceeded, v1.PhaseFailed),
		RunE:              func(command *cobra.Command, names []string) error { return r.run(command.Context(), names) },
	}
	command.Flags().StringVar(&r.name, "name", "", "name of the new task")
	complete(command, "name", noCompletion)
	r.creation.addTo(command)
	r.addObjects(command)
	return command
}

func (r *rerunning) run(ctx context.Context, args []string) error {
	if err := errors.Join(r.creation.validate(), r.output.validate()); err != nil {
		return err
	}
	names, failures := taskNames(args)
	if r.name != "" && len(args) > 1 {
		return fmt.Errorf("--name=%s: is for one task, not for %d", r.name, len(args))
	}
	clients, err := r.connect()
	if err != nil {
		return err
	}
	var created []*v1.GPUTask
	for _, name := range names {
		task, err := r.rerun(ctx, clients, name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		created = append(created, task)
	}
	for _, task := range created {
		if r.wait == waitNone {
			break
		}
		if err := r.follow(ctx, clients, task, r.wait, r.timeout); err != nil {
			failures = append(failures, err)
		}
	}
	return joined(failures)
}

// rerun creates one task anew.
func (r *rerunning) rerun(ctx context.Context, clients *cluster.Clients, name string) (*v1.GPUTask, error) {
	old, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !gputask.IsFinished(old) {
		return nil, fmt.Errorf("task %s can't be run again: it has not finished, it is %s", name, orNew(old.Status.Phase))
	}
	task := again(old)
	if r.name != "" {
		task.Name = r.name
		return r.create(ctx, clients, task, name)
	}
	for task.Name = nextName(name); ; task.Name = nextName(task.Name) {
		taken, err := exists(ctx, clients, task.Name)
		if err != nil {
			return nil, err
		}
		if taken {
			continue
		}
		created, err := r.create(ctx, clients, task, name)
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
	}
}

func (r *rerunning) create(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, old string) (*v1.GPUTask, error) {
	created, err := r.creation.create(ctx, clients, task)
	if err != nil {
		return nil, fmt.Errorf("creating task %s: %w", task.Name, err)
	}
	return created, r.report(r.session, &r.output, created, "created from "+old)
}

func exists(ctx context.Context, clients *cluster.Clients, name string) (bool, error) {
	_, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil, ignoreNotFound(err)
}

// again returns a new task like an old one, without what the API server and the controller
// have set. It is not suspended, whatever the old one was.
func again(old *v1.GPUTask) *v1.GPUTask {
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{
		Namespace: old.Namespace, Labels: maps.Clone(old.Labels), Annotations: maps.Clone(old.Annotations),
	}}
	task.APIVersion, task.Kind = v1.TaskKind().ToAPIVersionAndKind()
	old.Spec.DeepCopyInto(&task.Spec)
	task.Spec.Suspend = nil
	// It would make "kubectl apply" of the old manifest look like a change of the new task.
	delete(task.Annotations, corev1.LastAppliedConfigAnnotation)
	return task
}

// maxNameLength is the limit of the API.
const maxNameLength = 58

// nextName returns the name of the next run of a task: train-r2 after train, train-r3 after
// train-r2.
func nextName(name string) string {
	base, run := name, 1
	if match := regexp.MustCompile(`^(.+)-r([1-9][0-9]{0,5})$`).FindStringSubmatch(name); match != nil {
		number, err := strconv.Atoi(match[2])
		if err == nil {
			base, run = match[1], number
		}
	}
	suffix := "-r" + strconv.Itoa(run+1)
	if excess := len(base) + len(suffix) - maxNameLength; excess > 0 {
		base = strings.TrimRight(base[:len(base)-excess], "-.")
	}
	return base + suffix
}

func orNew(phase v1.GPUTaskPhase) string {
	if phase == "" {
		return "new"
	}
	return string(phase)
}
