// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

type description struct {
	*session
	output
	selection
}

func newDescribe(s *session) *cobra.Command {
	d := &description{session: s}
	command := &cobra.Command{
		Use:               "describe (NAME... | -l SELECTOR | --all)",
		Aliases:           []string{"show"},
		Short:             "Show everything about a task: its Pods, their GPUs, conditions and Events",
		GroupID:           groupTasks,
		Args:              d.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(d.validate),
		RunE:              s.onCluster(d.run),
	}
	d.selection.addTo(s, command)
	d.addObjects(command)
	return command
}

func (d *description) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	tasks, failures := d.find(ctx, d.session, clients, names)
	if !d.isText() {
		if err := d.printTasks(d.Out, tasks, d.several(names)); err != nil {
			failures = append(failures, err)
		}
		return joined(failures)
	}
	for i := range tasks {
		if i > 0 {
			fmt.Fprintln(d.Out)
		}
		if err := d.write(ctx, clients, &tasks[i]); err != nil {
			failures = append(failures, err)
		}
	}
	return joined(failures)
}

func (d *description) write(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) error {
	pods, err := cluster.PodsOf(ctx, clients, task)
	if err != nil {
		return err
	}
	events, err := eventsOf(ctx, clients, task, pods)
	if err != nil {
		return fmt.Errorf("listing the events of task %s: %w", task.Name, err)
	}
	described := &show.Description{Task: task, Pods: pods, Events: analysis.FoldEvents(events)}
	if task.Status.Phase == v1.PhaseFailed {
		described.FailedPod, described.LastLines = lastLines(ctx, clients, pods)
	}
	if described.Queue, err = cluster.QueueOf(ctx, clients, task, pods); err != nil {
		return err
	}
	show.Describe(d.page(), described)
	return nil
}

const (
	// logTimeout is how long a description waits for a log at most: it is about more than that.
	logTimeout = time.Second
	// logLines is how many lines are shown of it.
	logLines = 5
)

// lastLines returns the name of the first failed Pod and what it wrote last; nothing if that can't be read at once.
func lastLines(ctx context.Context, clients *cluster.Clients, pods []*corev1.Pod) (name, lines string) {
	at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if at < 0 {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	pod := pods[at]
	options := &corev1.PodLogOptions{Container: podfacts.WorkContainer(pod), TailLines: new(int64(logLines))}
	text, err := clients.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil {
		return "", ""
	}
	return pod.Name, string(text)
}

func uidsOf(pods []*corev1.Pod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i := range pods {
		uids[i] = pods[i].UID
	}
	return uids
}

// eventsOf returns the Events of a task, and those of its Pods that don't occur in the life of every Pod.
func eventsOf(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, pods []*corev1.Pod) ([]corev1.Event, error) {
	own, err := cluster.Events(ctx, clients, task.Namespace, task.UID)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i].Name
	}
	others, err := cluster.PodEvents(ctx, clients, task.Namespace, names)
	usual := []string{"Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing"}
	return slices.Concat(own, slices.DeleteFunc(others, func(event corev1.Event) bool {
		former := analysis.TimeOf(&event).Before(task.CreationTimestamp.Time) // of a task that had the name before
		return former || event.Type == corev1.EventTypeNormal && slices.Contains(usual, event.Reason)
	})), err
}
