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

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type lineup struct {
	*session
	output
	everywhere bool
	running    bool
}

func newQueue(s *session) *cobra.Command {
	q := &lineup{session: s}
	command := &cobra.Command{
		Use:     "queue [NAME...]",
		Aliases: []string{"queues"},
		Short:   "List waiting tasks in order, with expected start times",
		Long: `List waiting tasks in order, with expected start times.

By default, all waiting work of the namespace is listed, with and without a GPUQueue: tasks,
and gangs and Pods of other controllers, each with its position in its queue and the time at
which gpu-scheduler expects it to start.`,
		GroupID: groupCluster,
		Example: `  # List waiting work in the namespace, and in all namespaces with all columns
  kubectl gputask queue
  kubectl gputask queue -A -o wide

  # List waiting and running work in a queue
  kubectl gputask queue vision -A --running

  # Show the shares of a queue, and why other queues are served before or after it
  kubectl gputask queue describe vision`,
		ValidArgsFunction: s.arguments(0, queues),
		PreRunE:           checked(q.validate),
		RunE:              s.onCluster(q.run),
	}
	flags := command.Flags()
	flags.BoolVarP(&q.everywhere, "all-namespaces", "A", false, "list waiting work in all namespaces")
	flags.BoolVar(&q.running, "running", false, "also list running work, and the latest time at which it ends")
	flags.BoolVar(&q.noHeaders, "no-headers", false, "don't print the headers of the tables")
	q.add(command, slices.Concat([]string{outputWide, outputName, outputJSON, outputYAML}, templates))
	command.AddCommand(newQueueDescribe(s))
	return command
}

func (q *lineup) run(ctx context.Context, clients *cluster.Clients, args []string) error {
	names, failures := queueNames(args)
	if len(failures) > 0 {
		return joined(failures)
	}
	namespace := clients.Namespace
	if q.everywhere {
		namespace = metav1.NamespaceAll
	}
	list, err := cluster.ListQueues(ctx, clients, namespace)
	if err != nil {
		return err
	}
	if err := missing(list, names); err != nil {
		return err
	}
	work, err := cluster.ListWork(ctx, clients, namespace)
	if err != nil {
		return err
	}
	line := analysis.NewLine(&analysis.LineObjects{
		Queues: list.ForAnalysis(), Tasks: work.Tasks, Pods: work.Pods, Complete: q.everywhere, Now: q.Clock.Now(),
	})
	choose(line, names, q.running)
	return q.write(line, list, namespace, names)
}

// choose leaves what is in the named queues, or everything without names.
func choose(line *analysis.Line, names []string, running bool) {
	other := func(entry analysis.LineEntry) bool { return len(names) > 0 && !slices.Contains(names, entry.Queue) }
	line.Waiting, line.Running = slices.DeleteFunc(line.Waiting, other), slices.DeleteFunc(line.Running, other)
	if !running {
		line.Running = nil
	}
}

func (q *lineup) write(line *analysis.Line, list *cluster.QueueList, namespace string, names []string) error {
	switch {
	case q.format == outputName:
		for _, entry := range slices.Concat(line.Waiting, line.Running) {
			fmt.Fprintln(q.Out, entry.Resource())
		}
		return nil
	case !q.isText():
		return q.printValue(q.Out, line)
	}
	columns := show.LineColumns{Wide: q.format == outputWide, NoHeaders: q.noHeaders, Running: q.running, Namespaces: q.everywhere}
	show.Line(q.page(), line, columns)
	if len(line.Waiting) == 0 {
		q.nothingWaits(namespace, names)
	}
	if note := queuesNote(list); note != "" {
		fmt.Fprintln(q.ErrOut, note)
	}
	return nil
}

// nothingWaits tells that nothing waits, which is no error.
func (q *lineup) nothingWaits(namespace string, names []string) {
	where := placeOf(namespace)
	if len(names) > 0 {
		where += " in " + strings.Join(names, ", ")
	}
	fmt.Fprintf(q.ErrOut, "Nothing is waiting for GPUs %s.\n", where)
}

// queuesNote tells that there are no queues, or that they are not known.
func queuesNote(list *cluster.QueueList) string {
	switch {
	case list.Absent:
		return "This cluster has no GPUQueues: the CustomResourceDefinition gpuqueues.falldio.com is not installed. Tasks are served by priority, then by age."
	case list.Unknown != "":
		return "Can't tell which queue Pods without a queue label use: " + list.Unknown + "."
	case len(list.Queues) == 0:
		return "There are no GPUQueues: tasks are served by priority, then by age."
	default:
		return ""
	}
}

// missing returns an error that names the queues that don't exist.
func missing(list *cluster.QueueList, names []string) error {
	if list.Unknown != "" {
		return nil // they may exist
	}
	var failures []error
	for _, name := range names {
		if !slices.ContainsFunc(list.Queues, func(queue *v1.GPUQueue) bool { return queue.Name == name }) {
			failures = append(failures, fmt.Errorf("there is no GPUQueue %q: `kubectl get gpuqueues` lists them", name))
		}
	}
	return joined(failures)
}

// queueNames returns the names, each once. "gpuqueue.falldio.com/vision" and "gpuqueue/vision" stand for "vision".
func queueNames(args []string) (names []string, failures []error) {
	return namesOf("GPUQueue", []string{"gpuqueue", "gpuqueues", "gpuq"}, args)
}
