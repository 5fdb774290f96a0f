// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

func newQueue(name string, change ...func(*v1.GPUQueue)) *v1.GPUQueue {
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{}}}
	for _, apply := range change {
		apply(queue)
	}
	return queue
}

// setQueues has the controller see queues, and a namespace with labels.
func (f *fixture) setQueues(namespace map[string]string, queues ...*v1.GPUQueue) {
	f.t.Helper()
	f.queueTree, f.queuesKnown = func() *queueing.Tree { return nil }, func() bool { return true }
	if len(queues) > 0 {
		f.queueTree = func() *queueing.Tree { return gpuqueue.NewTree(queues) }
	}
	f.putCluster(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: namespace}})
}

// putCluster puts cluster-scoped objects into the caches.
func (f *fixture) putCluster(object runtime.Object) {
	f.t.Helper()
	indexer := f.clusterInformers.Core().V1().Namespaces().Informer().GetIndexer()
	if _, ok := object.(*schedulingv1.PriorityClass); ok {
		indexer = f.clusterInformers.Scheduling().V1().PriorityClasses().Informer().GetIndexer()
	}
	if err := indexer.Update(object); err != nil {
		f.t.Fatal(err)
	}
}

func TestATaskThatMayNotUseItsQueueWaitsAndSaysWhy(t *testing.T) {
	t.Parallel()
	onlyVision := newQueue("vision", func(q *v1.GPUQueue) {
		q.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "vision"}
	})
	onlyLow := newQueue("low", func(q *v1.GPUQueue) { q.Spec.Priorities = []string{"gpu-low-priority"} })
	tests := map[string]struct {
		queues    []*v1.GPUQueue
		namespace map[string]string
		change    func(*v1.GPUTask)
		reason    string // empty: its Pods are created
		message   string
	}{
		"there are no queues, as the last one was deleted": {
			nil, nil, func(task *v1.GPUTask) { task.Spec.Queue = "gone" },
			"QueueNotFound", `there is no GPUQueue "gone": create it, or name another one`},
		"there are no queues, and the template names one": {
			nil, nil, func(task *v1.GPUTask) {
				task.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelQueue: "gone"}}}
			},
			"QueueNotFound", `there is no GPUQueue "gone"`},
		"there are no queues: the default of the namespace means nothing": {
			nil, map[string]string{v1.LabelQueue: "gone"}, func(*v1.GPUTask) {}, "", ""},
		"the queue does not exist": {
			[]*v1.GPUQueue{onlyVision}, nil, func(task *v1.GPUTask) { task.Spec.Queue = "gone" },
			"QueueNotFound", `there is no GPUQueue "gone": create it, or name another one`},
		"the default queue of the namespace does not exist": {
			[]*v1.GPUQueue{onlyVision}, map[string]string{v1.LabelQueue: "gone"}, func(*v1.GPUTask) {},
			"QueueNotFound", `there is no GPUQueue "gone" (it is the default of the namespace`},
		"the queue does not accept the namespace": {
			[]*v1.GPUQueue{onlyVision}, map[string]string{"team": "web"}, func(task *v1.GPUTask) { task.Spec.Queue = "vision" },
			"NamespaceNotAccepted", "queue vision does not accept namespace default: its namespaceSelector is team=vision"},
		"the queue does not accept the priority": {
			[]*v1.GPUQueue{onlyLow}, nil, func(task *v1.GPUTask) { task.Spec.Queue, task.Spec.Priority = "low", "gpu-high-priority" },
			"PriorityNotAccepted", "queue low does not accept PriorityClass gpu-high-priority: it accepts gpu-low-priority"},
		"the queue accepts the namespace": {
			[]*v1.GPUQueue{onlyVision}, map[string]string{"team": "vision"}, func(task *v1.GPUTask) { task.Spec.Queue = "vision" }, "", ""},
		"the queue accepts the cluster's default priority": {
			[]*v1.GPUQueue{onlyLow}, nil, func(task *v1.GPUTask) { task.Spec.Queue = "low" }, "", ""},
		"the task is in no queue": {
			[]*v1.GPUQueue{onlyVision}, nil, func(*v1.GPUTask) {}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.setQueues(tc.namespace, tc.queues...)
			f.putCluster(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu-low-priority"}, GlobalDefault: true})
			task := newTask("train", 1)
			tc.change(task)
			f.store(task)
			err := f.sync(task)
			if tc.reason == "" {
				if pods := f.podNames(); err != nil || len(pods) != 1 {
					t.Errorf("Pods %v, %v; want one", pods, err)
				}
				return
			}
			if err == nil || len(f.podNames()) > 0 {
				t.Fatalf("%v, and the Pods %v: want an error and none", err, f.podNames())
			}
			f.mustSync(task)
			status := f.stored(task).Status
			condition := conditionOf(&status, v1.ConditionPodsCreated)
			if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != tc.reason || !strings.Contains(status.Message, tc.message) || status.Phase != v1.PhasePending {
				t.Errorf("phase %s, message %q, condition %v; want %s and %q", status.Phase, status.Message, condition, tc.reason, tc.message)
			}
		})
	}
}

func conditionOf(status *v1.GPUTaskStatus, kind string) *metav1.Condition {
	index := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if index < 0 {
		return nil
	}
	return &status.Conditions[index]
}

func TestATaskStartsWhenItsQueueAppears(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture){
		"the queue is created": func(f *fixture) {
			f.setQueues(nil, newQueue("other"), newQueue("vision"))
			f.refusals.QueuesChanged()
		},
		"the last queue is deleted": func(f *fixture) {
			f.setQueues(nil)
			f.refusals.QueuesChanged()
		},
		"the namespace gets another default": func(f *fixture) {
			f.setQueues(map[string]string{v1.LabelQueue: "other"}, newQueue("other"))
			f.refusals.NamespaceChanged("default")
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.setQueues(map[string]string{v1.LabelQueue: "vision"}, newQueue("other"))
			task := f.store(newTask("train", 1))
			if err := f.sync(task); err == nil {
				t.Fatal("the task does not wait")
			}
			f.mustSync(task) // its status
			f.observe()
			for f.queue.Len() > 0 {
				key, _ := f.queue.Get()
				f.queue.Done(key)
			}
			happens(f)
			if f.queue.Len() != 1 {
				t.Fatal("the task was not woken")
			}
			f.mustSync(task)
			if pods := f.podNames(); len(pods) != 1 {
				t.Errorf("Pods %v, want one", pods)
			}
		})
	}
}

// run has all Pods run, and the caches show it.
func (f *fixture) run() {
	f.t.Helper()
	list, err := f.kube.CoreV1().Pods("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace); err != nil {
			f.t.Fatal(err)
		}
	}
	f.observe()
}

// A task that declares no limit is stopped by that of its queue, or of the queue's ancestors.
func TestTheQueueBoundsTheRunOfATaskThatDeclaresNothing(t *testing.T) {
	t.Parallel()
	limited := func(name, parent string, seconds int64) *v1.GPUQueue {
		return newQueue(name, func(q *v1.GPUQueue) { q.Spec.Parent, q.Spec.MaxRuntimeSeconds = parent, &seconds })
	}
	unlimited := newQueue("vision", func(q *v1.GPUQueue) { q.Spec.DefaultRuntimeSeconds = ptr.To[int64](60) })
	tests := map[string]struct {
		queues  []*v1.GPUQueue
		message string // empty: it runs on
	}{
		"by its own limit":                     {[]*v1.GPUQueue{limited("vision", "", 600)}, "not finished after running for 600 s (maxRuntimeSeconds of GPUQueue vision)"},
		"by its parent's, if that is less":     {[]*v1.GPUQueue{limited("all", "", 300), limited("vision", "all", 600)}, "not finished after running for 300 s (maxRuntimeSeconds of GPUQueue all)"},
		"not by what the scheduler plans with": {[]*v1.GPUQueue{unlimited}, ""},
		"not without queues":                   {nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.setQueues(nil, test.queues...)
			task := newTask("train", 1)
			if len(test.queues) > 0 {
				task.Spec.Queue = "vision"
			}
			f.store(task)
			f.mustSync(task)
			f.run()
			f.mustSync(f.stored(task))
			f.observe()
			f.clock.Step(601 * time.Second)
			f.mustSync(f.stored(task))
			status := f.stored(task).Status
			condition := conditionOf(&status, v1.ConditionFailureTarget)
			switch {
			case test.message == "" && (condition != nil || status.Phase != v1.PhaseRunning):
				t.Errorf("it does not run on: phase %s, %v", status.Phase, condition)
			case test.message != "" && (condition == nil || condition.Reason != v1.ReasonMaxRuntimeExceeded || condition.Message != test.message):
				t.Errorf("phase %s, condition %v; want %q", status.Phase, condition, test.message)
			}
		})
	}
}
