// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Rerun creates a task anew that has finished, under a name, or without one under the next free one: train-r2 after
// train. create creates it.
func Rerun(ctx context.Context, clients *cluster.Clients, old *v1.GPUTask, name string, create func(*v1.GPUTask) (*v1.GPUTask, error)) (*v1.GPUTask, error) {
	if !gputask.IsFinished(old) {
		return nil, fmt.Errorf("task %s can't be run again: it has not finished, it is %s", old.Name, cmp.Or(old.Status.Phase, "new"))
	}
	task := again(old)
	for task.Name = cmp.Or(name, nextName(old.Name)); ; task.Name = nextName(task.Name) {
		if name == "" {
			taken, err := exists(ctx, clients, task.Namespace, task.Name)
			if err != nil {
				return nil, err
			}
			if taken {
				continue
			}
		}
		created, err := create(task)
		switch {
		case name == "" && apierrors.IsAlreadyExists(err):
		case err != nil:
			return nil, fmt.Errorf("creating task %s: %w", task.Name, err)
		default:
			return created, nil
		}
	}
}

func exists(ctx context.Context, clients *cluster.Clients, namespace, name string) (bool, error) {
	_, err := clients.Tasks.FalldioV1().GPUTasks(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
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
