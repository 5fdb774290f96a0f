// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// uncountedPods remember Pods until the status of their task tells of their end. A Pod that has succeeded
// need not run again if it is deleted before that, which may take maxProgressDelay. Pods that somebody else
// has deleted are counted: what happens again and again is braked. The latter need not survive the process:
// then a loss is not counted, and the next one is. Job keeps such Pods with a finalizer instead;
// docs/controller.md says why we don't.
type uncountedPods struct {
	mu sync.Mutex
	// succeeded are the Pods that have succeeded, by name. Standbys remember them, too.
	succeeded map[gputask.Identity]map[string]*corev1.Pod
	// gone are the Pods that somebody else has deleted.
	gone map[gputask.Identity][]*corev1.Pod
	// own are the Pods whose deletion the controller has requested itself.
	own sets.Set[types.UID]
}

func newUncountedPods() *uncountedPods {
	return &uncountedPods{succeeded: map[gputask.Identity]map[string]*corev1.Pod{}, gone: map[gputask.Identity][]*corev1.Pod{}, own: sets.New[types.UID]()}
}

// addSucceeded remembers a Pod if it has succeeded and its task's status does not say so yet.
func (u *uncountedPods) addSucceeded(task *v1.GPUTask, pod *corev1.Pod) {
	if !gputask.HasUncountedSuccess(task, pod) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	owner := gputask.IdentityOf(task)
	if u.succeeded[owner] == nil {
		u.succeeded[owner] = map[string]*corev1.Pod{}
	}
	u.succeeded[owner][pod.Name] = pod
}

// among returns a task's Pods together with those that have succeeded and are gone, unless the
// status tells of them.
func (u *uncountedPods) among(task *v1.GPUTask, pods []*corev1.Pod) []*corev1.Pod {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetCounted(task)
	known := u.succeeded[gputask.IdentityOf(task)]
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

// deletes records that the controller itself requests the deletion of a Pod.
func (u *uncountedPods) deletes(pod *corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.own.Insert(pod.UID)
}

// deleted forgets the request: the Pod is gone, or the API server has refused it.
func (u *uncountedPods) deleted(pod *corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.own.Delete(pod.UID)
}

// addGone remembers a Pod that is gone, unless the controller has deleted it, or it had ended before.
func (u *uncountedPods) addGone(task *v1.GPUTask, pod *corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.own.Has(pod.UID) || !gputask.WasTakenAway(pod) {
		return
	}
	owner := gputask.IdentityOf(task)
	u.gone[owner] = append(u.gone[owner], pod)
}

// goneOf returns the Pods of a task that somebody else has deleted.
func (u *uncountedPods) goneOf(task *v1.GPUTask) []*corev1.Pod {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.gone[gputask.IdentityOf(task)])
}

// counted forgets the Pods of a task that its status tells of: those that have succeeded, and the given
// ones that are gone.
func (u *uncountedPods) counted(task *v1.GPUTask, gone []*corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetCounted(task)
	owner := gputask.IdentityOf(task)
	u.gone[owner] = slices.DeleteFunc(u.gone[owner], func(pod *corev1.Pod) bool { return slices.Contains(gone, pod) })
	if len(u.gone[owner]) == 0 {
		delete(u.gone, owner)
	}
}

func (u *uncountedPods) forgetCounted(task *v1.GPUTask) {
	owner := gputask.IdentityOf(task)
	maps.DeleteFunc(u.succeeded[owner], func(_ string, pod *corev1.Pod) bool { return !gputask.HasUncountedSuccess(task, pod) })
	if len(u.succeeded[owner]) == 0 {
		delete(u.succeeded, owner)
	}
}

// forget drops the Pods of a task that is gone.
func (u *uncountedPods) forget(task *v1.GPUTask) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.succeeded, gputask.IdentityOf(task))
	delete(u.gone, gputask.IdentityOf(task))
}
