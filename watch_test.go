// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestAStandbyQueuesNothingAndALeaderBeginsWithEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.working.Store(false)
	task := newTask("train", 1)
	f.show(task, newTask("other", 1))
	f.taskChanged(task, task)
	f.podChanged(f.podOf(task))
	if got := f.queue.Len(); got != 0 {
		t.Errorf("the standby has queued %d tasks", got)
	}
	f.takeOver()
	if got := f.queue.Len(); got != 2 {
		t.Errorf("the leader begins with %d tasks, want 2", got)
	}
}

func TestDependentsAreLookedAtWhenATaskChanges(t *testing.T) {
	t.Parallel()
	on := func(name, dependency string) *v1.GPUTask {
		task := newTask(name, 1)
		task.Spec.DependsOn = []v1.Dependency{{Name: dependency}}
		return task
	}
	tests := map[string]struct {
		happens func(*fixture, *v1.GPUTask)
		want    []string
	}{
		"a new task requeues its dependents": {
			func(f *fixture, task *v1.GPUTask) { f.enqueueDependents(task) }, []string{"b"},
		},
		"a deleted task concerns itself and those that wait for it": {
			func(f *fixture, task *v1.GPUTask) { f.taskDeleted(f.t.Context(), task) }, []string{"a", "b"},
		},
		"a new phase concerns those that wait for it directly": {
			func(f *fixture, task *v1.GPUTask) {
				after := task.DeepCopy()
				after.Status.Phase = v1.PhaseSucceeded
				f.taskChanged(task, after)
			}, []string{"a", "b"},
		},
		"a change without a new phase requeues only the task": {
			func(f *fixture, task *v1.GPUTask) { f.taskChanged(task, task) }, []string{"a"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			a := newTask("a", 1)
			f.show(a, on("b", "a"), on("c", "b"), newTask("unconcerned", 1))
			tc.happens(f, a)
			got := map[string]bool{}
			for f.queue.Len() > 0 {
				key, _ := f.queue.Get()
				got[key.Name] = true
				f.queue.Done(key)
			}
			want := map[string]bool{}
			for _, name := range tc.want {
				want[name] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
		})
	}
}
