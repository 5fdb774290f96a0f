// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// following is a run of logs --follow.
type following struct {
	*logs
	clients *cluster.Clients
	pods    *podlogs.Members
	streams podlogs.Limit
	reads   podlogs.Limit
	// followed are the names of the Pods whose logs are followed.
	followed map[string]bool
	prefixes []*prefixes
	warned   bool
}

// followAll writes the logs of the chosen Pods, those to come included, until all tasks are
// finished or gone.
func (l *logs) followAll(ctx context.Context, clients *cluster.Clients, tasks []v1.GPUTask) error {
	f := &following{
		logs: l, clients: clients, followed: map[string]bool{},
		streams: podlogs.NewLimit(l.maxStreams), reads: podlogs.NewLimit(l.maxStreams),
	}
	if err := f.prepare(ctx, tasks); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	pods, err := podlogs.Watch(ctx, clients, clients.Namespace, tasks, l.warnOf)
	if err != nil {
		return err
	}
	f.pods = pods
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.startFollowers(ctx, group, tasks) })
	return group.Wait()
}

// prepare checks the choice before the first line is written.
func (f *following) prepare(ctx context.Context, tasks []v1.GPUTask) error {
	streams := 0
	for i := range tasks {
		pods, err := cluster.PodsOf(ctx, f.clients, &tasks[i])
		if err != nil {
			return err
		}
		chosen, err := f.chosen(&tasks[i], pods)
		if err != nil {
			return err
		}
		ended := 0
		for j := range chosen {
			if podfacts.Ended(chosen[j]) {
				ended++
			}
		}
		streams += max(0, f.expected(&tasks[i], chosen)-ended)
		f.prefixes = append(f.prefixes, f.newPrefixes(&tasks[i], chosen, len(tasks) > 1))
	}
	if streams > f.maxStreams {
		return fmt.Errorf("--follow would stream the logs of %s, but the limit is %d: choose Pods with --index, or raise the limit with --max-log-requests=%d",
			plural.Count(streams, "Pod"), f.maxStreams, streams)
	}
	return nil
}

// startFollowers starts a follower for each chosen Pod that there is or will be.
func (f *following) startFollowers(ctx context.Context, group *errgroup.Group, tasks []v1.GPUTask) error {
	for begun := false; ; begun = true {
		changed, over, running := f.pods.Changed(), true, 0
		for i := range tasks {
			over = f.pods.IsOver(&tasks[i]) && over
			for _, pod := range f.pods.Pods(&tasks[i]) {
				if !f.matches(pod) {
					continue
				}
				if pod.Status.Phase == corev1.PodRunning {
					running++
				}
				f.start(ctx, group, &tasks[i], pod, f.prefixes[i], begun)
			}
		}
		f.warnOfLimit(running)
		if over {
			return nil // the followers end by themselves
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

func (f *following) start(ctx context.Context, group *errgroup.Group, task *v1.GPUTask, pod *corev1.Pod, prefixes *prefixes, late bool) {
	if f.followed[pod.Name] {
		return
	}
	f.followed[pod.Name] = true
	follower := &podlogs.Follower{
		Log:     podlogs.Log{Options: f.Options, Kube: f.clients.Kube, Write: f.writer(prefixes.of(pod))},
		Members: f.pods, Task: task, Pod: pod.Name, Streams: f.streams, Reads: f.reads,
		Late: late, Clock: f.Clock, Pause: f.Poll, Warn: f.warn,
	}
	group.Go(func() error { return follower.Run(ctx) })
}

// warnOfLimit tells that more Pods run than when the limit was checked.
func (f *following) warnOfLimit(running int) {
	if running > f.maxStreams && !f.warned {
		f.warned = true
		f.warn(fmt.Errorf("%s run, but the logs of only %d are streamed: raise the limit with --max-log-requests=%d", plural.Count(running, "Pod"), f.maxStreams, running))
	}
}

func (f *following) warn(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintln(f.ErrOut, err)
}
