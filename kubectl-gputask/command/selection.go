// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// selection is the choice of the tasks of the namespace that a command is about: by name, by
// label, or all.
type selection struct {
	selector string
	all      bool
}

func (l *selection) addTo(s *session, command *cobra.Command) {
	command.Flags().StringVarP(&l.selector, "selector", "l", "", "tasks with these labels, for example team=vision")
	command.Flags().BoolVar(&l.all, "all", false, "all tasks of the namespace")
	complete(command, "selector", s.values(selectors))
}

// args requires exactly one way of choosing tasks.
func (l *selection) args(command *cobra.Command, names []string) error {
	ways := 0
	for _, given := range []bool{len(names) > 0, l.selector != "", l.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%s needs names, or -l SELECTOR, or --all, and only one of them", command.Name())
	}
	return nil
}

// several reports whether more than one task may be chosen, even if it happens to be one.
func (l *selection) several(names []string) bool { return len(names) != 1 }

// find returns the chosen tasks: named ones in their order, others by name. Names without a
// task are errors beside the tasks that there are.
func (l *selection) find(ctx context.Context, s *session, clients *cluster.Clients, args []string) ([]v1.GPUTask, []error) {
	if len(args) == 0 {
		list, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).List(ctx, metav1.ListOptions{LabelSelector: l.selector})
		if err != nil {
			return nil, []error{fmt.Errorf("listing gputasks: %w", err)}
		}
		if len(list.Items) == 0 {
			s.noTasks(clients.Namespace)
		}
		sortTasks(list.Items)
		return list.Items, nil
	}
	names, failures := taskNames(args)
	var tasks []v1.GPUTask
	for _, name := range names {
		task, err := taskNamed(ctx, clients, name)
		if err != nil {
			failures = append(failures, err)
			if ctx.Err() != nil {
				return nil, failures
			}
			continue
		}
		tasks = append(tasks, *task)
	}
	return tasks, failures
}

// absentError is the API server's error about an object that does not exist, in words of ours.
type absentError struct {
	error
	text string
}

func (e absentError) Error() string { return e.text }
func (e absentError) Unwrap() error { return e.error }

func missingTask(cause error, name, namespace string) error {
	return absentError{cause, fmt.Sprintf("there is no task %q in namespace %s", name, namespace)}
}

// taskNamed returns a task of the namespace.
func taskNamed(ctx context.Context, clients *cluster.Clients, name string) (*v1.GPUTask, error) {
	task, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if cluster.IsAbsent(err) {
		return nil, missingTask(err, name, clients.Namespace)
	}
	return task, err
}

// noTasks tells that a choice is empty, which is no error.
func (s *session) noTasks(namespace string) {
	fmt.Fprintf(s.ErrOut, "No tasks found %s.\n", placeOf(namespace))
}

func placeOf(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "in any namespace"
	}
	return "in namespace " + namespace
}

// taskNames returns the names, each once. "gputask.falldio.com/train", as --output=name
// writes it, and "gputask/train", as kubectl takes it, stand for "train".
func taskNames(args []string) (names []string, failures []error) {
	return namesOf("GPUTask", []string{"gputask", "gputasks", "gt"}, args)
}

// namesOf returns the names of objects of a kind, which may be written in front of them.
func namesOf(kind string, words, args []string) (names []string, failures []error) {
	for _, arg := range args {
		name := arg
		if word, rest, qualified := strings.Cut(arg, "/"); qualified {
			short := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(word), "."+v1.GroupName), "."+v1.GroupVersion.Version)
			if !slices.Contains(words, short) || rest == "" {
				failures = append(failures, fmt.Errorf("%s: is not the name of a %s", arg, kind))
				continue
			}
			name = rest
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, failures
}
