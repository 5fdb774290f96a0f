// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func rescheduling(opts *options) { opts.rescheduling.period = time.Minute }

func (f *fixture) showNode(node *corev1.Node) {
	f.t.Helper()
	if err := f.rescheduler.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
		f.t.Fatal(err)
	}
}

func gpuNode(name, model string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: model}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")},
		},
	}
}

// misplacedTask stores a task that runs on a node which is now of another
// model.
func (f *fixture) misplacedTask(name string) *v1.GPUTask {
	f.t.Helper()
	task := newTask(name, 1)
	task.UID = "uid-of-" + task.UID
	task.Spec.GPU = "h100"
	task.Status.Phase = v1.PhaseRunning
	f.store(task)
	pod := f.podOf(task)
	pod.Spec.NodeName, pod.Status.Phase = "old", corev1.PodRunning
	f.storePod(pod)
	return task
}

func (f *fixture) evictions() int {
	count := 0
	for _, write := range f.writes() {
		if write == "create pods/eviction" {
			count++
		}
	}
	return count
}

func TestAMisplacedTaskIsEvictedIfThereIsRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rescheduling)
	task := f.misplacedTask("train")
	f.showNode(gpuNode("old", "a100"))
	if err := f.rescheduler.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.evictions(); got != 0 {
		t.Fatalf("%d evictions without room elsewhere", got)
	}
	f.showNode(gpuNode("new", "h100"))
	failNext(&f.kube.Fake, "create", "pods", 1, apierrors.NewTooManyRequests("a PodDisruptionBudget", 10))
	if err := f.rescheduler.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(f.events.Events); got != 0 {
		t.Fatalf("%d events although a PodDisruptionBudget forbade the move", got)
	}
	// The task finishes meanwhile, so that it needs no new place.
	task = task.DeepCopy()
	task.Status.Phase = v1.PhaseSucceeded
	f.kube.PrependReactor("create", "pods", f.whenEvicted(task))
	if err := f.rescheduler.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`Normal Rescheduled placed anew: node old has the GPU model "a100" now, not "h100"`, <-f.events.Events); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}
