// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletePod removes a task's only Pod, which runs, from the API server and from the cache, as somebody else.
func (f *fixture) deletePod(name string) {
	f.t.Helper()
	pod, err := f.kube.CoreV1().Pods("default").Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.kube.Tracker().Delete(podResource.WithVersion("v1"), "default", name); err != nil {
		f.t.Fatal(err)
	}
	if err := f.podIndex.Delete(pod); err != nil {
		f.t.Fatal(err)
	}
	f.podDeleted(pod)
}

func TestAPodThatSomebodyDeletesAgainAndAgainComesBackLaterAndLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	exists := func() bool {
		f.t.Helper()
		f.mustSync(task)
		f.observe()
		return len(f.cachedPods(task)) > 0
	}
	var pauses []int
	for range 4 {
		seconds := 0
		for ; !exists(); seconds++ {
			if seconds > 60 {
				t.Fatalf("after pauses of %v s, the Pod does not come back: %q", pauses, f.stored(task).Status.Message)
			}
			f.clock.Step(time.Second)
		}
		pauses = append(pauses, seconds)
		f.clock.Step(time.Second)
		pod := f.cachedPods(task)[0].DeepCopy()
		pod.CreationTimestamp = metav1.NewTime(f.clock.Now()) // the fake API server sets none
		if err := f.kube.Tracker().Update(podResource.WithVersion("v1"), pod, "default"); err != nil {
			t.Fatal(err)
		}
		f.deletePod("train")
	}
	if pauses[1] > 1 || pauses[2] < 9 || pauses[3] < 19 {
		t.Errorf("the Pod came back after %v s", pauses)
	}
	if kept := len(f.uncounted.gone) + len(f.uncounted.own); kept > 1 {
		t.Errorf("%d Pods are remembered", kept)
	}
}

func TestAPodThatTheControllerDeletesIsNoLoss(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	f.mustSync(task)
	f.observe()
	pod := f.cachedPods(task)[0]
	f.uncounted.deletes(pod)
	f.podDeleted(pod)
	if gone := f.uncounted.goneOf(task); len(gone) > 0 {
		t.Errorf("%d Pods are taken for lost", len(gone))
	}
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	f.podDeleted(ended)
	if gone := f.uncounted.goneOf(task); len(gone) > 0 {
		t.Errorf("a Pod that had ended is taken for lost")
	}
}

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
	if len(f.uncounted.succeeded) > 0 {
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
