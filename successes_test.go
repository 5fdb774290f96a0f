// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A status that reports only progress is written with a delay. A Pod may succeed and be deleted,
// with its node for example, before that.
func TestASuccessCountsEvenIfItsPodIsGoneBeforeTheStatusIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.startAll(task, 0)
	f.observe()
	pod := f.cachedPods(task)[0]
	f.change(task, pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	f.disappears(pod.Name)
	f.mustSync(task)
	f.clock.Step(maxProgressDelay)
	f.mustSync(task)
	if got := f.stored(task).Status.CompletedIndexes; got != "0" {
		t.Errorf("the indexes %q have succeeded, want 0", got)
	}
	f.observe()
	f.mustSync(task)
	if diff := cmp.Diff([]string{"train-1"}, f.podNames()); diff != "" {
		t.Errorf("unexpected Pods (-want +got):\n%s", diff)
	}
	if len(f.successes.byTask) > 0 {
		t.Error("the success is remembered although it is counted")
	}
}

// disappears deletes a Pod from the API server and the cache.
func (f *fixture) disappears(name string) {
	f.t.Helper()
	if err := f.kube.CoreV1().Pods("default").Delete(f.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
	object, _, err := f.podIndex.GetByKey("default/" + name)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.podIndex.Delete(object); err != nil {
		f.t.Fatal(err)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		f.podChanged(pod)
	}
}
