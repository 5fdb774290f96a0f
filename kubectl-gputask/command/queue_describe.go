// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

type queueDescription struct {
	*session
	output
}

func newQueueDescribe(s *session) *cobra.Command {
	d := &queueDescription{session: s}
	command := &cobra.Command{
		Use:     "describe NAME...",
		Aliases: []string{"show"},
		Short:   "Show everything about a queue, and why others are served before or after it",
		Long: `Show everything about a queue: its GPUs of each model, guaranteed and in use, its usage, its
waiting work with expected start times, and which other queues with waiting work are served
before or after it, and why.

Waiting work is listed from all namespaces. If you may not see them all, only your namespace
is listed, and the numbers are from the queue's status, which is at most a minute old.`,
		Args:              someNames,
		ValidArgsFunction: s.arguments(0, queues),
		PreRunE:           checked(d.validate),
		RunE:              s.onCluster(d.run),
	}
	d.addTo(command)
	return command
}

func (d *queueDescription) run(ctx context.Context, clients *cluster.Clients, args []string) error {
	names, failures := queueNames(args)
	if len(failures) > 0 {
		return joined(failures)
	}
	list, err := describable(ctx, clients)
	if err != nil {
		return err
	}
	queues, failure := list.ForAnalysis(), missing(list, names)
	if queues == nil {
		return failure
	}
	line, complete, err := d.line(ctx, clients, queues)
	if err != nil {
		return err
	}
	var reports []*analysis.QueueReport
	for _, name := range names {
		if report := queues.Report(name, line); report != nil {
			reports = append(reports, report)
		}
	}
	if err := d.write(reports, len(names) > 1); err != nil {
		return err
	}
	if !complete && d.isText() && len(reports) > 0 {
		fmt.Fprintf(d.ErrOut, "\nOnly namespace %s is listed, because you may not see the others.\n", clients.Namespace)
	}
	return failure
}

// describable returns the queues; if they are not known, that is an error.
func describable(ctx context.Context, clients *cluster.Clients) (*cluster.QueueList, error) {
	list, err := cluster.ListQueues(ctx, clients, clients.Namespace)
	switch {
	case err != nil:
		return nil, err
	case list.Absent:
		return nil, errors.New("this cluster has no GPUQueues: the CustomResourceDefinition gpuqueues.falldio.com is not installed")
	case list.Unknown != "":
		return nil, fmt.Errorf("the queue can't be described: %s", list.Unknown)
	default:
		return list, nil
	}
}

// line returns what waits and runs, as far as it may be seen, and brings the queues up to date if that is everything.
func (d *queueDescription) line(ctx context.Context, clients *cluster.Clients, queues *analysis.Queues) (line *analysis.Line, complete bool, err error) {
	work, complete, err := everyoneOrOwn(ctx, clients)
	if err != nil {
		return nil, false, err
	}
	if complete {
		nodes, err := cluster.ListNodes(ctx, clients)
		if err != nil {
			return nil, false, err
		}
		queues.Refresh(work.Pods, nodes)
	}
	line = analysis.NewLine(&analysis.LineObjects{Queues: queues, Tasks: work.Tasks, Pods: work.Pods, Complete: complete, Now: d.Clock.Now()})
	return line, complete, nil
}

// everyoneOrOwn lists what waits and runs in all namespaces, or, if that is forbidden, in that of the user.
func everyoneOrOwn(ctx context.Context, clients *cluster.Clients) (work *cluster.Work, complete bool, err error) {
	work, err = cluster.ListWork(ctx, clients, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		work, err = cluster.ListWork(ctx, clients, clients.Namespace)
		return work, false, err
	}
	return work, true, err
}

func (d *queueDescription) write(reports []*analysis.QueueReport, several bool) error {
	if d.isText() {
		showEach(d.session, reports, show.Queue)
		return nil
	}
	for _, report := range reports {
		report.Queue = report.Queue.DeepCopy()
		report.Queue.ManagedFields = nil
	}
	return printValues(&d.output, d.Out, reports, several)
}
