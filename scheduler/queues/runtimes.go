// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// runtimeOf returns how long a Pod of a queue is going to run: from what it declares, what the
// queue assumes, and what ran before.
func (b *queueBook) runtimeOf(state *State, queue string, pod *corev1.Pod) queueing.Runtime {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.estimate(state, queue, pod).Runtime()
}

// Runtime returns how long a Pod is going to run, as far as is known.
func (l *Line) Runtime(state *State, pod *corev1.Pod) queueing.Runtime {
	return l.book.runtimeOf(state, state.QueueOf(pod).Queue, pod)
}

// ExpectedToEnd reports whether anything is known about how long a Pod is going to run.
func (l *Line) ExpectedToEnd(pod *corev1.Pod) bool {
	return l.Runtime(l.State(), pod).Longest() > 0
}

// assumedRuntime is what a Pod is assumed to run for of which nothing is known. If it runs longer, that is extended by
// the same, then by twice that, and so on: a gang that waits for it gets a place on the nodes whose Pods have run the
// longest, and is not passed for ever.
const assumedRuntime = 4 * time.Hour

// endOf returns by when a Pod that runs is expected to have ended: few like it run longer. If nothing is known of it,
// or it has outlived all that are like it, that is assumed.
func (b *queueBook) endOf(state *State, queue string, pod *corev1.Pod, now time.Time) (ends time.Time, known bool) {
	began := startOf(pod, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	estimate := b.estimate(state, queue, pod)
	if estimate.Unknown() {
		return began.Add(runtimes.Extended(assumedRuntime, now.Sub(began), assumedRuntime)), false
	}
	_, longest := estimate.Remaining(now.Sub(began))
	return now.Add(longest), !estimate.Outlived(now.Sub(began))
}

// estimate requires the lock, also while its result is used.
func (b *queueBook) estimate(state *State, queue string, pod *corev1.Pod) runtimes.Estimate {
	task := taskOf(pod)
	if task.Limit == 0 {
		task.Limit = state.Tree().DefaultRuntime(queue)
	}
	return b.history.Estimate(task)
}

// Ended remembers how long a Pod ran that is gone from the informer. That has only Pods that have not ended: one that
// has succeeded or failed is gone as it was before, without being deleted. Of a gang, the first Pod stands for all.
func (l *Line) Ended(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || !snapshot.WantsGPUs(pod) || pod.Status.StartTime == nil {
		return
	}
	if index := pod.Labels[v1.LabelIndex]; index != "" && index != "0" && snapshot.InGroup(pod) {
		return
	}
	now := l.Clock.Now()
	l.book.learn(endedJob{task: taskOf(pod), ran: now.Sub(podfacts.FirstStarted(pod)), at: now})
}

// startOf returns when a Pod began to run; now if it has not yet.
func startOf(pod *corev1.Pod, now time.Time) time.Time {
	if pod.Status.StartTime == nil {
		return now
	}
	return podfacts.FirstStarted(pod)
}

// taskOf returns what decides about predictions for a Pod.
func taskOf(pod *corev1.Pod) runtimes.Task {
	name := cmp.Or(pod.Labels[v1.LabelTask], pod.Labels[v1.LabelPodGroup], pod.Name)
	gpus := float64(gpuqueue.Amount(pod)) / float64(queueing.GPU)
	return runtimes.Task{Namespace: pod.Namespace, Name: name, GPUs: gpus, Limit: gpuqueue.MaxRuntime(pod)}
}
