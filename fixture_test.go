// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a process with fake clients. Its informers don't run: tests put objects into
// the caches themselves, and so control what the controller sees and when.
type fixture struct {
	*Controller
	process *process
	t       *testing.T
	clock   *clocktesting.FakeClock
	kube    *kubefake.Clientset
	fake    *taskfake.Clientset
	events  *record.FakeRecorder
}

func newFixture(t *testing.T, change ...func(*options)) *fixture {
	t.Helper()
	opts := newOptions()
	for _, apply := range change {
		apply(opts)
	}
	f := &fixture{
		t: t, clock: clocktesting.NewFakeClock(testTime),
		kube: kubefake.NewClientset(), fake: taskfake.NewClientset(), events: record.NewFakeRecorder(100),
	}
	var err error
	f.process, err = newProcess(t.Context(), clients{kube: f.kube, tasks: f.fake}, f.events, f.clock, opts, opts.components())
	if err != nil {
		t.Fatal(err)
	}
	f.Controller = f.process.controller
	f.working.Store(true)
	t.Cleanup(f.queue.ShutDown)
	return f
}

func newTask(name string, replicas int32) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "uid-of-task", CreationTimestamp: metav1.NewTime(testTime.Add(-time.Minute))},
		Spec:       v1.GPUTaskSpec{GPUAmount: "1", Replicas: &replicas, BackoffLimit: ptr.To[int32](6), FailurePolicy: v1.RestartTask},
	}
}

// store puts a task into the API server and the cache.
func (f *fixture) store(task *v1.GPUTask) *v1.GPUTask {
	f.t.Helper()
	if err := f.fake.Tracker().Add(task); err != nil {
		f.t.Fatal(err)
	}
	f.show(task)
	f.fake.ClearActions()
	return task
}

// show puts objects into the caches.
func (f *fixture) show(objects ...runtime.Object) {
	f.t.Helper()
	for _, object := range objects {
		indexer := f.podIndex
		switch object.(type) {
		case *v1.GPUTask:
			indexer = f.taskIndex
		case *corev1.Service:
			indexer = f.serviceIndex
		}
		if err := indexer.Add(object); err != nil {
			f.t.Fatal(err)
		}
	}
}

// observe copies the objects in the API server into the caches and calls the event
// handlers, as the informers would.
func (f *fixture) observe() {
	f.t.Helper()
	tasks, err := f.fake.FalldioV1().GPUTasks("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range tasks.Items {
		f.show(&tasks.Items[i])
		f.expectations.ObserveVersion(cache.MetaObjectToName(&tasks.Items[i]), tasks.Items[i].ResourceVersion)
	}
	pods, err := f.kube.CoreV1().Pods("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var list []any
	for i := range pods.Items {
		list = append(list, &pods.Items[i])
		f.podChanged(&pods.Items[i])
	}
	if err := f.podIndex.Replace(list, ""); err != nil {
		f.t.Fatal(err)
	}
	services, err := f.kube.CoreV1().Services("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	list = nil
	for i := range services.Items {
		list = append(list, &services.Items[i])
		f.serviceChanged(&services.Items[i])
	}
	if err := f.serviceIndex.Replace(list, ""); err != nil {
		f.t.Fatal(err)
	}
	f.fake.ClearActions()
	f.kube.ClearActions()
}

func keyOf(task *v1.GPUTask) cache.ObjectName { return cache.MetaObjectToName(task) }

// sync handles a task once and returns the error.
func (f *fixture) sync(task *v1.GPUTask) error {
	return f.syncHandler(context.WithoutCancel(f.t.Context()), keyOf(task))
}

// mustSync handles a task once and fails the test on an error.
func (f *fixture) mustSync(task *v1.GPUTask) {
	f.t.Helper()
	if err := f.sync(task); err != nil {
		f.t.Fatal(err)
	}
}

// stored returns the task from the API server.
func (f *fixture) stored(task *v1.GPUTask) *v1.GPUTask {
	f.t.Helper()
	got, err := f.fake.FalldioV1().GPUTasks(task.Namespace).Get(f.t.Context(), task.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// podNames returns the names of the Pods in the API server, sorted.
func (f *fixture) podNames() []string {
	f.t.Helper()
	pods, err := f.kube.CoreV1().Pods("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

// writes returns the verbs and resources of all requests that change
// something, tasks first.
func (f *fixture) writes() []string {
	var verbs []string
	for _, action := range append(f.fake.Actions(), f.kube.Actions()...) {
		switch action.GetVerb() {
		case "get", "list", "watch":
			continue
		}
		verb := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() != "" {
			verb += "/" + action.GetSubresource()
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

// failNext makes the next n requests of a kind fail with the error.
func failNext(fake *clienttesting.Fake, verb, resource string, n int, err error) {
	fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if n == 0 {
			return false, nil, nil
		}
		n--
		return true, nil, err
	})
}

// podOf returns the first Pod that the controller would create for a task.
func (f *fixture) podOf(task *v1.GPUTask) *corev1.Pod {
	f.t.Helper()
	pod, err := gputask.NewPod(task, 0, 0, f.config.Pods)
	if err != nil {
		f.t.Fatal(err)
	}
	pod.UID = "uid-of-pod"
	return pod
}

// storePod puts a Pod into the API server and the cache.
func (f *fixture) storePod(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	if err := f.kube.Tracker().Add(pod); err != nil {
		f.t.Fatal(err)
	}
	f.show(pod)
	return pod
}
