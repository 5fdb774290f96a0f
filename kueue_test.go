// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// fakeAdmissions says what a test wants, and remembers what it is told.
type fakeAdmissions struct {
	admission *gputask.Admission
	unknown   bool
	err       error
	reported  []v1.GPUTaskPhase
	// pods is how many Pods there were at the last report.
	pods int
}

func (q *fakeAdmissions) Admission(*v1.GPUTask, []*corev1.Pod) (*gputask.Admission, bool, error) {
	return q.admission, !q.unknown, q.err
}

func (q *fakeAdmissions) Report(_ context.Context, task *v1.GPUTask, plan *gputask.Plan, pods []*corev1.Pod) error {
	q.reported, q.pods = append(q.reported, plan.Status.Phase), plan.ActivePods(task, pods)[""]
	return nil
}

func (*fakeAdmissions) Run(context.Context) {}

func newKueueFixture(t *testing.T) (*fixture, *fakeAdmissions) {
	t.Helper()
	f, kueue := newFixture(t), &fakeAdmissions{}
	f.admissions = kueue
	return f, kueue
}

func TestATaskIsNotTouchedBeforeItsAdmissionIsKnown(t *testing.T) {
	t.Parallel()
	f, kueue := newKueueFixture(t)
	task := f.store(newTask("train", 2))
	kueue.unknown = true
	f.mustSync(task)
	kueue.unknown, kueue.err = false, errors.New("there is no ResourceFlavor")
	if err := f.sync(task); err == nil {
		t.Error("an error got lost")
	}
	if writes := f.writes(); writes != nil || kueue.reported != nil {
		t.Errorf("writes %v, reports %v", writes, kueue.reported)
	}
}

func TestKueueIsToldTheStatusThatWasDecidedOn(t *testing.T) {
	t.Parallel()
	f, kueue := newKueueFixture(t)
	task := f.store(newTask("train", 2))
	kueue.admission = &gputask.Admission{Reason: "WaitingForQuota", Message: "waiting"}
	f.mustSync(task)
	f.observe()
	kueue.admission = &gputask.Admission{Admitted: true, Grants: map[string]gputask.Grant{"": {Pods: 1}}}
	f.mustSync(f.stored(task))
	if diff := cmp.Diff([]v1.GPUTaskPhase{v1.PhaseSuspended, v1.PhasePending}, kueue.reported); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	if kueue.pods != 1 {
		t.Errorf("the Pod that was just created is not among the %d that are reported", kueue.pods)
	}
	if diff := cmp.Diff([]string{"train-0"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func TestTasksInQueuesAreLookedAtAgainWhenKueueIsKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queued, other := newTask("queued", 1), newTask("other", 1)
	queued.Labels = map[string]string{kueue.LabelQueue: "team-a"}
	f.show(queued, other)
	f.enqueueInKueue()
	if f.queue.Len() != 1 {
		t.Fatalf("%d tasks are in the queue", f.queue.Len())
	}
	if key, _ := f.queue.Get(); key != keyOf(queued) {
		t.Errorf("%s is in the queue", key)
	}
}
