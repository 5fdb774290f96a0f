// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// departures remember Pods that somebody else has deleted until the status of their task says so: what happens again and again is
// braked. They need not survive the process: then a loss is not counted, and the next one is.
type departures struct {
	mu sync.Mutex
	// own are the Pods whose deletion the controller has requested itself.
	own    sets.Set[types.UID]
	byTask map[gputask.Identity][]*corev1.Pod
}

func newDepartures() *departures {
	return &departures{own: sets.New[types.UID](), byTask: map[gputask.Identity][]*corev1.Pod{}}
}

// request records that the controller itself requests the deletion of a Pod.
func (d *departures) request(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own.Insert(pod.UID)
}

// deleted forgets the request: the Pod is gone, or the API server has refused it.
func (d *departures) deleted(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own.Delete(pod.UID)
}

// add remembers a Pod that is gone, unless the controller has deleted it, or it had ended before.
func (d *departures) add(task *v1.GPUTask, pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own.Has(pod.UID) || !gputask.WasTakenAway(pod) {
		return
	}
	owner := gputask.IdentityOf(task)
	d.byTask[owner] = append(d.byTask[owner], pod)
}

// of returns the Pods of a task that are gone and not counted yet.
func (d *departures) of(task *v1.GPUTask) []*corev1.Pod {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.byTask[gputask.IdentityOf(task)])
}

// counted forgets Pods of a task: its status is written.
func (d *departures) counted(task *v1.GPUTask, pods []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owner := gputask.IdentityOf(task)
	rest := slices.DeleteFunc(d.byTask[owner], func(pod *corev1.Pod) bool { return slices.Contains(pods, pod) })
	if d.byTask[owner] = rest; len(rest) == 0 {
		delete(d.byTask, owner)
	}
}

// forget drops the Pods of a task that is gone.
func (d *departures) forget(task *v1.GPUTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byTask, gputask.IdentityOf(task))
}
