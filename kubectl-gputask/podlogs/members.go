// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
)

// Members are the Pods of tasks of one namespace, kept up to date by a watch.
type Members struct {
	namespace string
	tasks     cache.Store
	pods      cache.Store

	mu      sync.Mutex
	changed chan struct{}
}

// maxNames is the number of tasks up to which the watch of Pods names them.
const maxNames = 50

// Watch watches the Pods of tasks, which are all in the namespace, until ctx is done. It
// returns when all that there is has arrived.
func Watch(ctx context.Context, clients *cluster.Clients, namespace string, tasks []v1.GPUTask, warn func(string) cache.WatchErrorHandlerWithContext) (*Members, error) {
	names := make([]string, len(tasks))
	for i := range tasks {
		names[i] = tasks[i].Name
	}
	watchedTasks := cluster.NewInformer(clients.Tasks, clients.Tasks.FalldioV1().GPUTasks(namespace), &v1.GPUTask{}, func(options *metav1.ListOptions) {
		if len(names) == 1 {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, names[0]).String()
		}
	})
	watchedPods := cluster.NewInformer(clients.Kube, clients.Kube.CoreV1().Pods(namespace), &corev1.Pod{}, func(options *metav1.ListOptions) {
		options.LabelSelector = v1.LabelTask
		if len(names) <= maxNames {
			options.LabelSelector = fmt.Sprintf("%s in (%s)", v1.LabelTask, strings.Join(names, ","))
		}
	})
	m := &Members{namespace: namespace, tasks: watchedTasks.GetStore(), pods: watchedPods.GetStore(), changed: make(chan struct{})}
	for what, watched := range map[string]cache.SharedIndexInformer{"gputasks": watchedTasks, "pods": watchedPods} {
		if err := watched.SetWatchErrorHandlerWithContext(warn(what)); err != nil {
			return nil, err
		}
		synced, err := informer.OnAnyChange(ctx, watched, func(any, bool) { m.announce() })
		if err != nil {
			return nil, err
		}
		go watched.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), synced) {
			return nil, context.Cause(ctx)
		}
	}
	return m, nil
}

// announce wakes all that wait for a change.
func (m *Members) announce() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change.
func (m *Members) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Pods returns the Pods that a task controls.
func (m *Members) Pods(task *v1.GPUTask) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, object := range m.pods.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return cluster.ControlledBy(pods, task)
}

// pod returns a Pod of a task by name, or nil.
func (m *Members) pod(task *v1.GPUTask, name string) *corev1.Pod {
	object, exists, err := m.pods.GetByKey(cache.ObjectName{Namespace: m.namespace, Name: name}.String())
	if err != nil || !exists {
		return nil
	}
	if pod, ok := object.(*corev1.Pod); ok && metav1.IsControlledBy(pod, task) {
		return pod
	}
	return nil
}

// IsOver reports whether no Pods of a task begin any more: it is finished or gone.
func (m *Members) IsOver(task *v1.GPUTask) bool {
	object, exists, err := m.tasks.GetByKey(cache.MetaObjectToName(task).String())
	if err != nil || !exists {
		return true
	}
	now, ok := object.(*v1.GPUTask)
	return !ok || now.UID != task.UID || gputask.IsFinished(now)
}
