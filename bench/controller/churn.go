// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// churnStart is after what time a Pod of the churn runs, churnEnd when it has ended.
	churnStart, churnEnd = time.Second, 20 * time.Second
	// churnTTL is after how many seconds gpu-controller deletes a task of the churn that has ended.
	churnTTL = 5
	// churnFirst is the number of the first task of the churn: those before it run all the time.
	churnFirst = 1_000_000
)

// churn is tasks that come and go: it plays their users, the scheduler, the kubelets and the garbage collector.
type churn struct {
	server *apiServer
	nodes  int

	mu    sync.Mutex
	tasks map[string]*v1.GPUTask
	pods  map[string]*corev1.Pod
	count int
	err   error
}

func newChurn(server *apiServer, nodes int) *churn {
	c := &churn{server: server, nodes: nodes, tasks: map[string]*v1.GPUTask{}, pods: map[string]*corev1.Pod{}}
	server.created, server.deleted = c.podCreated, c.taskDeleted
	return c
}

// run creates tasks until ctx ends.
func (c *churn) run(ctx context.Context, perSecond int) error {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for number := churnFirst; ; number++ {
		select {
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.err
		case <-ticker.C:
			c.create(number)
		}
	}
}

func (c *churn) create(number int) {
	task := newTask(number)
	task.CreationTimestamp, task.Spec.TTLSecondsAfterFinished = metav1.Now(), new(int32(churnTTL))
	c.mu.Lock()
	c.tasks[task.Name] = task
	c.mu.Unlock()
	c.fail(c.server.put("gputasks", task.Name, task))
}

// podCreated lets a Pod run and end.
func (c *churn) podCreated(pod *corev1.Pod) {
	c.mu.Lock()
	c.pods[pod.Labels[v1.LabelTask]] = pod
	node := nodeName(len(c.pods) % c.nodes)
	c.mu.Unlock()
	time.AfterFunc(churnStart, func() { c.update(pod, func() { complete(pod, node) }) })
	time.AfterFunc(churnEnd, func() {
		c.update(pod, func() {
			pod.Status.Phase = corev1.PodSucceeded
			for i := range pod.Status.ContainerStatuses {
				pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Reason: "Completed"}}
			}
		})
	})
}

func (c *churn) update(pod *corev1.Pod, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[pod.Labels[v1.LabelTask]] != pod {
		return // it was deleted
	}
	uid, created := pod.UID, pod.CreationTimestamp
	change()
	pod.UID, pod.CreationTimestamp = uid, created
	c.keep(c.server.putPod(pod))
}

// taskDeleted deletes a task, and its Pod with it.
func (c *churn) taskDeleted(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task, pod := c.tasks[name], c.pods[name]
	if task == nil {
		return // it is deleted already
	}
	delete(c.tasks, name)
	delete(c.pods, name)
	c.count++
	c.keep(c.server.remove("gputasks", name, task))
	if pod != nil {
		c.keep(c.server.remove("pods", pod.Name, pod))
	}
}

// deleteAll deletes the tasks that are left.
func (c *churn) deleteAll() {
	c.mu.Lock()
	names := slices.Collect(maps.Keys(c.tasks))
	c.mu.Unlock()
	for _, name := range names {
		c.taskDeleted(name)
	}
}

// gone returns how many tasks have been deleted.
func (c *churn) gone() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *churn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(err)
}

// keep keeps the first error. c.mu is locked.
func (c *churn) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}
