// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestTasksOnACycleAreQueued: when it closes, and when it opens.
func TestTasksOnACycleAreQueued(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := newTask("one", 1), newTask("two", 1)
	one.Spec.DependsOn, two.Spec.DependsOn = []v1.Dependency{{Name: "two"}}, []v1.Dependency{{Name: "one"}}
	two.UID = "another"
	f.store(one)
	f.store(two)
	f.cycles.update()
	if got := f.queue.Len(); got != 2 {
		t.Fatalf("%d tasks are queued, want both", got)
	}
	f.mustSync(one)
	if got := f.stored(one).Status.Message; !strings.Contains(got, "dependency cycle one → two → one") {
		t.Errorf("message %q", got)
	}
	f.cycles.update()
	if got := f.queue.Len(); got != 2 {
		t.Errorf("%d tasks are queued although nothing has changed", got)
	}
	for range 2 {
		key, _ := f.queue.Get()
		f.queue.Forget(key)
		f.queue.Done(key)
	}
	if err := f.taskIndex.Delete(two); err != nil {
		t.Fatal(err)
	}
	if !f.cycles.begin() {
		t.Fatal("no search is due at the start")
	}
	f.taskDeleted(t.Context(), two)
	if !f.cycles.begin() {
		t.Error("no search is due after a task on a cycle was deleted")
	}
	f.cycles.update()
	if cycle := f.cycles.of(keyOf(one)); cycle != nil {
		t.Errorf("the cycle %v is left", cycle)
	}
}
