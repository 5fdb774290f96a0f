// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// successes remember Pods that have succeeded until the status of their task says so, which may
// take maxProgressDelay: a Pod that is deleted meanwhile need not run again. Standbys remember them
// too. Job keeps such Pods with a finalizer instead; docs/controller.md says why we don't.
type successes struct {
	mu     sync.Mutex
	byTask map[gputask.Identity]map[string]*corev1.Pod
}

func newSuccesses() *successes {
	return &successes{byTask: map[gputask.Identity]map[string]*corev1.Pod{}}
}

// add remembers a Pod if it has succeeded and its task's status does not say so yet.
func (s *successes) add(task *v1.GPUTask, pod *corev1.Pod) {
	if !gputask.HasUncountedSuccess(task, pod) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := gputask.IdentityOf(task)
	if s.byTask[owner] == nil {
		s.byTask[owner] = map[string]*corev1.Pod{}
	}
	s.byTask[owner][pod.Name] = pod
}

// among returns a task's Pods together with those that have succeeded and are gone, unless the
// status tells of them.
func (s *successes) among(task *v1.GPUTask, pods []*corev1.Pod) []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetCounted(task)
	known := s.byTask[gputask.IdentityOf(task)]
	if len(known) == 0 {
		return pods
	}
	present := make(map[string]bool, len(pods))
	for _, pod := range pods {
		present[pod.Name] = true
	}
	for name, pod := range known {
		if !present[name] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// changed forgets the Pods of a task that its status tells of: on a standby, nobody calls among.
func (s *successes) changed(task *v1.GPUTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetCounted(task)
}

func (s *successes) forgetCounted(task *v1.GPUTask) {
	owner := gputask.IdentityOf(task)
	known := s.byTask[owner]
	maps.DeleteFunc(known, func(_ string, pod *corev1.Pod) bool { return !gputask.HasUncountedSuccess(task, pod) })
	if len(known) == 0 {
		delete(s.byTask, owner)
	}
}

// forget drops the Pods of a task that is gone.
func (s *successes) forget(task *v1.GPUTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byTask, gputask.IdentityOf(task))
}
