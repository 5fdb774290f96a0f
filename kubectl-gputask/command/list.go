// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
)

type listing struct {
	*session
	output
	selection
	everywhere bool
	watch      bool
	phases     []string
	sortBy     string
	field      *sortField
}

func newList(s *session) *cobra.Command {
	l := &listing{session: s}
	command := &cobra.Command{
		Use:     "list [NAME... | -l SELECTOR]",
		Aliases: []string{"ls", "get", "ps"},
		Short:   "List tasks: running ones first, then waiting ones",
		Long: `List tasks: running ones first, then waiting ones, then those that finished in the last hour.

Tasks that finished earlier are listed with names, --phase, --all or --watch, and in all output
formats other than tables.`,
		GroupID: groupTasks,
		Args:    l.args,
		Example: `  # List the tasks in the namespace, and those in all namespaces with all columns
  kubectl gputask list
  kubectl gputask list -A -o wide

  # List failed tasks only, and all tasks no matter when they finished
  kubectl gputask list --phase=failed
  kubectl gputask list --all

  # Print a line for each change until Ctrl-C
  kubectl gputask list -l team=vision --watch

  # Sort by the number of restarts, with custom columns
  kubectl gputask list --sort-by=.status.restarts -o custom-columns=NAME:.metadata.name,RESTARTS:.status.restarts`,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(l.validate),
		RunE:              s.onCluster(l.run),
	}
	flags := command.Flags()
	flags.StringVarP(&l.selector, "selector", "l", "", "label selector, for example team=vision")
	flags.BoolVarP(&l.everywhere, "all-namespaces", "A", false, "list tasks in all namespaces")
	flags.BoolVarP(&l.all, "all", "a", false, "include tasks that finished more than an hour ago")
	flags.StringSliceVar(&l.phases, "phase", nil, "only tasks in these phases, for example running,pending")
	flags.BoolVarP(&l.watch, "watch", "w", false, "after the list, print a line or object for each change until Ctrl-C")
	flags.StringVar(&l.sortBy, "sort-by", "", "field to sort by, as a JSONPath, for example .metadata.creationTimestamp; with --watch, only the list is sorted")
	flags.BoolVar(&l.noHeaders, "no-headers", false, "don't print the header of the table")
	complete(command, "selector", s.values(selectors))
	complete(command, "phase", fixed(phaseNames()...))
	complete(command, "sort-by", fixed(".metadata.creationTimestamp", ".metadata.name", ".spec.priority", ".status.phase", ".status.restarts", ".status.startTime"))
	l.addObjects(command, outputWide)
	return command
}

func (l *listing) args(_ *cobra.Command, names []string) error {
	switch {
	case len(names) > 0 && l.selector != "":
		return errors.New("list takes names or -l SELECTOR, not both")
	case len(names) > 0 && l.everywhere:
		return errors.New("list takes names or --all-namespaces, not both: names are looked up in one namespace")
	}
	return nil
}

func (l *listing) validate() (err error) {
	if err := l.output.validate(); err != nil {
		return err
	}
	for _, phase := range l.phases {
		if err := oneOf("--phase", strings.ToLower(phase), phaseNames()...); err != nil {
			return err
		}
	}
	l.field, err = newSortField(l.sortBy)
	return err
}

func (l *listing) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	namespace := clients.Namespace
	if l.everywhere {
		namespace = metav1.NamespaceAll
	}
	tasks, failures := l.tasks(ctx, clients, namespace, names)
	if len(failures) > 0 && len(names) == 0 {
		return joined(failures)
	}
	tasks = l.inPhases(tasks)
	if len(names) == 0 && l.isText() {
		slices.SortStableFunc(tasks, func(a, b v1.GPUTask) int {
			return cmp.Compare(slices.Index(show.PhaseOrder(), a.Status.Phase), slices.Index(show.PhaseOrder(), b.Status.Phase))
		})
	}
	if err := l.field.sort(tasks); err != nil {
		return err
	}
	table := show.NewTasks(show.TaskColumns{Namespaces: l.everywhere, Wide: l.format == outputWide, NoHeaders: l.noHeaders, Watch: l.watch})
	if l.watch {
		if len(failures) > 0 {
			return joined(failures)
		}
		return l.follow(ctx, clients, namespace, names, tasks, table)
	}
	hidden := 0
	if l.isText() && len(names)+len(l.phases) == 0 && !l.all {
		tasks, hidden = l.recent(tasks)
	}
	if err := l.write(table, tasks, len(names) != 1); err != nil {
		failures = append(failures, err)
	}
	if l.isText() && len(failures) == 0 {
		l.summarize(tasks, hidden, namespace)
	}
	return joined(failures)
}

// phaseNames are the values of --phase.
func phaseNames() []string {
	var names []string
	for _, phase := range show.PhaseOrder() {
		if phase != "" {
			names = append(names, strings.ToLower(string(phase)))
		}
	}
	return names
}

// inPhases drops the tasks that are in none of the phases that were asked for.
func (l *listing) inPhases(tasks []v1.GPUTask) []v1.GPUTask {
	if len(l.phases) == 0 {
		return tasks
	}
	return slices.DeleteFunc(tasks, func(task v1.GPUTask) bool {
		return !slices.ContainsFunc(l.phases, func(phase string) bool { return strings.EqualFold(phase, string(task.Status.Phase)) })
	})
}

// recentEnd is for how long a task is listed after its end.
const recentEnd = time.Hour

// recent drops what has finished long ago, and returns how many that are.
func (l *listing) recent(tasks []v1.GPUTask) (left []v1.GPUTask, hidden int) {
	left = slices.DeleteFunc(tasks, func(task v1.GPUTask) bool {
		return gputask.IsFinished(&task) && task.Status.CompletionTime != nil && l.Clock.Since(task.Status.CompletionTime.Time) > recentEnd
	})
	return left, len(tasks) - len(left)
}

// summarize says how many tasks there are, beside the table, which programs may read.
func (l *listing) summarize(tasks []v1.GPUTask, hidden int, namespace string) {
	if len(tasks)+hidden == 0 {
		l.noTasks(namespace)
	}
	if len(tasks) > 1 && !l.noHeaders {
		fmt.Fprintf(l.ErrOut, "%s\n", show.TasksSummary(tasks))
	}
	if hidden > 0 {
		fmt.Fprintf(l.ErrOut, "%s finished more than an hour ago and %s not shown: use --all\n", plural.Count(hidden, "task"), plural.Verb(hidden, "is", "are"))
	}
}

// tasks returns the named tasks in their order, or those of the namespace by name.
func (l *listing) tasks(ctx context.Context, clients *cluster.Clients, namespace string, names []string) ([]v1.GPUTask, []error) {
	if len(names) > 0 {
		return l.find(ctx, l.session, clients, names)
	}
	list, err := clients.Tasks.FalldioV1().GPUTasks(namespace).List(ctx, metav1.ListOptions{LabelSelector: l.selector})
	if err != nil {
		return nil, []error{fmt.Errorf("listing gputasks: %w", err)}
	}
	sortTasks(list.Items)
	return list.Items, nil
}

func (l *listing) write(table *show.TaskTable, tasks []v1.GPUTask, several bool) error {
	if !l.isText() {
		return l.printTasks(l.Out, tasks, several)
	}
	if len(tasks) > 0 {
		table.Write(l.page(), tasks)
	}
	return nil
}

// sortTasks orders tasks by namespace and name.
func sortTasks(tasks []v1.GPUTask) {
	slices.SortStableFunc(tasks, func(a, b v1.GPUTask) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
