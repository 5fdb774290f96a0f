// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type explanation struct {
	*session
	output
	clusterFlags
	selection
}

func newExplain(s *session) *cobra.Command {
	e := &explanation{session: s}
	command := &cobra.Command{
		Use:   "explain (NAME... | KIND/NAME... | -l SELECTOR | --all)",
		Short: "Explain why a task waits, and what would let it start",
		Long: `Explain why a task waits, and what would let it start.

The answer has the requested resources, how much of them is free, the tasks ahead in the
queue, the smallest changes that would let the task start, moves of running tasks that would
make room, and when tasks with a deadline end. It assumes that the rescheduler runs with its
default options.

Other Pods are explained, too: use pod/NAME, or the name of their controller, for example
job/NAME, deployment/NAME or statefulset/NAME.`,
		GroupID:           groupCluster,
		Args:              e.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(e.validate),
		RunE:              func(command *cobra.Command, names []string) error { return e.run(command.Context(), names) },
	}
	e.clusterFlags.addTo(command)
	e.selection.addTo(s, command)
	e.output.addTo(command)
	return command
}

func (e *explanation) run(ctx context.Context, names []string) error {
	clients, observed, err := e.observe(ctx, &e.clusterFlags)
	forbidden := err
	if apierrors.IsForbidden(err) {
		if clients, err = e.connect(); err != nil {
			return err
		}
		answers, failures := e.alone(ctx, clients, names)
		if err := e.write(answers, e.several(names)); err != nil {
			return err
		}
		if len(answers) > 0 {
			fmt.Fprintf(e.ErrOut, "\nOnly the task's own status is shown, because you may not see more: %v\n", forbidden)
		}
		return joined(failures)
	}
	if err != nil {
		return err
	}
	answers, failures := e.answers(ctx, clients, observed, names)
	if err := e.write(answers, e.several(names)); err != nil {
		failures = append(failures, err)
	}
	e.noteUnknownQueues(observed)
	return joined(failures)
}

// answers explains the chosen tasks as part of the cluster, all by the same observation.
func (e *explanation) answers(ctx context.Context, clients *cluster.Clients, observed *cluster.Observation, args []string) ([]*analysis.Explanation, []error) {
	tasks, others := separated(args)
	names, failures := taskNames(tasks)
	if len(args) == 0 {
		selector, err := labels.Parse(e.selector)
		if err != nil {
			return nil, []error{fmt.Errorf("--selector=%s: %w", e.selector, err)}
		}
		for i := range observed.Tasks {
			task := observed.Tasks[i].GPUTask
			if task.Namespace == clients.Namespace && selector.Matches(labels.Set(task.Labels)) {
				names = append(names, task.Name)
			}
		}
		slices.Sort(names)
		if len(names) == 0 {
			e.noTasks(clients.Namespace)
		}
	}
	workloads, owners, missing := asTasks(clients.Namespace, others, slices.Concat(observed.Pods, observed.Waiting))
	names, failures = append(names, owners...), append(failures, missing...)
	for i := range workloads {
		names = append(names, workloads[i].Name)
	}
	observed.Tasks = slices.Concat(observed.Tasks, workloads)
	view := analysis.NewView(&observed.Objects, nil)
	view.UseQueues(observed.Queues.ForAnalysis(), observed.Waiting)
	warnings := e.warnings(ctx, clients)
	var answers []*analysis.Explanation
	for _, name := range names {
		answer, found := view.Explain(clients.Namespace, name)
		if !found {
			failures = append(failures, missingTask(nil, name, clients.Namespace))
			continue
		}
		answer.Warnings = analysis.PodWarnings(warnings, observedPods(observed, answer.Task))
		answers = append(answers, answer)
	}
	return answers, failures
}

// warnings returns the Warning Events about Pods. Who may not read them gets an explanation without.
func (e *explanation) warnings(ctx context.Context, clients *cluster.Clients) []corev1.Event {
	events, err := cluster.PodWarnings(ctx, clients, clients.Namespace)
	if err != nil {
		fmt.Fprintf(e.ErrOut, "Events of Pods are not shown: %v\n", err)
	}
	return events
}

// observedPods returns the UIDs of the Pods of a task.
func observedPods(observed *cluster.Observation, task *v1.GPUTask) []types.UID {
	var uids []types.UID
	for i := range observed.Tasks {
		if observed.Tasks[i].UID != task.UID {
			continue
		}
		for _, pod := range observed.Tasks[i].Pods {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// alone explains tasks by their own status and Pods, for users without the rights to list the
// whole cluster.
func (e *explanation) alone(ctx context.Context, clients *cluster.Clients, names []string) ([]*analysis.Explanation, []error) {
	named, others := separated(names)
	var answers []*analysis.Explanation
	var failures []error
	if len(others) > 0 {
		pods, err := cluster.PodsIn(ctx, clients, clients.Namespace)
		if err != nil {
			return nil, []error{err}
		}
		workloads, owners, missing := asTasks(clients.Namespace, others, pods)
		named, failures = append(named, owners...), missing
		for i := range workloads {
			answers = append(answers, analysis.Alone(workloads[i].GPUTask, workloads[i].Pods))
		}
		if len(named) == 0 {
			return answers, failures
		}
	}
	tasks, more := e.find(ctx, e.session, clients, named)
	failures = append(failures, more...)
	warnings := e.warnings(ctx, clients)
	for i := range tasks {
		pods, err := cluster.PodsOf(ctx, clients, &tasks[i])
		if err != nil {
			failures = append(failures, err)
			continue
		}
		answer := analysis.Alone(&tasks[i], pods)
		answer.Warnings = analysis.PodWarnings(warnings, uidsOf(pods))
		answers = append(answers, answer)
	}
	return answers, failures
}

// write writes the answers one below the other, or as a list if several tasks were asked for.
func (e *explanation) write(answers []*analysis.Explanation, several bool) error {
	if e.isText() {
		showEach(e.session, answers, show.Explanation)
		return nil
	}
	for _, answer := range answers {
		answer.Task = answer.Task.DeepCopy()
		answer.Task.ManagedFields = nil
	}
	return printValues(&e.output, e.Out, answers, several)
}
