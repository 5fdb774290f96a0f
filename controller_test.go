// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/expectations"
	"falldio.github.io/gpu-controller/refusals"
)

var (
	taskResource = schema.GroupResource{Group: v1.GroupName, Resource: "gputasks"}
	podResource  = schema.GroupResource{Resource: "pods"}
)

func TestANewTaskCostsOneStatusAndItsPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 3))
	f.mustSync(task)
	want := []string{"update gputasks/status", "create services", "create pods", "create pods", "create pods"}
	if diff := cmp.Diff(want, f.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"train-0", "train-1", "train-2"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
	if got := f.stored(task).Status.Phase; got != v1.PhasePending {
		t.Errorf("phase %s, want Pending", got)
	}
}

func TestATaskWithAProfileGetsPodsForSlices(t *testing.T) {
	t.Parallel()
	for gpus, want := range map[corev1.ResourceName]corev1.ResourceName{v1.ResourceGPU: "falldio.com/mig-1g.10gb", v1.ResourceNVIDIAGPU: "nvidia.com/mig-1g.10gb"} {
		f := newFixture(t, func(o *options) { o.tasks.Pods.GPUResource = gpus })
		task := newTask("infer", 2)
		task.Spec.GPUProfile, task.Spec.GPUAmount = "1g.10gb", "2"
		f.mustSync(f.store(task))
		pods, err := f.kube.CoreV1().Pods(task.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 2 {
			t.Fatalf("%d Pods, %v", len(pods.Items), err)
		}
		for i := range pods.Items {
			requests := pods.Items[i].Spec.Containers[0].Resources.Requests
			if diff := cmp.Diff(corev1.ResourceList{want: resource.MustParse("2")}, requests); diff != "" {
				t.Errorf("Pod %s requests (-want +got):\n%s", pods.Items[i].Name, diff)
			}
		}
	}
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.mustSync(task)
	f.observe()
	f.mustSync(task)
	f.observe() // the first look at the new Pods may have changed the status
	for range 5 {
		f.mustSync(task)
	}
	if writes := f.writes(); writes != nil {
		t.Errorf("unexpected writes: %v", writes)
	}
}

func TestNothingIsDoneBeforeTheCacheShowsTheLastWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.mustSync(task)
	f.kube.ClearActions()
	f.mustSync(task) // the cache still shows no Pod
	if actions := f.kube.Actions(); len(actions) != 0 {
		t.Errorf("unexpected requests: %v", actions)
	}
	f.clock.Step(expectations.Timeout)
	if err := f.sync(task); err == nil {
		t.Error("after the time limit the controller did not try again")
	}
	if diff := cmp.Diff([]string{"train-0", "train-1"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func TestAConflictStopsEverythingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	failNext(&f.fake.Fake, "update", "gputasks", 1, apierrors.NewConflict(taskResource, "train", errors.New("changed")))
	if err := f.sync(task); !apierrors.IsConflict(err) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	if names := f.podNames(); names != nil {
		t.Errorf("Pods were created from an outdated status: %v", names)
	}
	f.mustSync(task)
	if diff := cmp.Diff([]string{"train"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func TestAnAPIErrorInTheMiddleOfAGangLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		f := newFixture(t)
		task := f.store(newTask("train", 5))
		calls := 0
		f.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			calls++
			if calls == n {
				return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return false, nil, nil
		})
		if err := f.sync(task); !apierrors.IsInternalError(err) {
			t.Fatalf("error at Pod %d: got %v, want the API server's error", n, err)
		}
		f.observe()
		f.clock.Step(refusals.FirstRetry)
		f.mustSync(task)
		if diff := cmp.Diff([]string{"train-0", "train-1", "train-2", "train-3", "train-4"}, f.podNames()); diff != "" {
			t.Errorf("error at Pod %d: Pods (-want +got):\n%s", n, diff)
		}
	}
}

func TestNoPodIsCreatedForATaskThatWasDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	f.show(task) // the cache does not know yet
	f.mustSync(task)
	if names := f.podNames(); names != nil {
		t.Errorf("Pods were created: %v", names)
	}
}

func TestPodsAreDeletedByUIDAndMayBeGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.Suspend = new(true)
	f.store(task)
	pod := f.storePod(f.podOf(task))
	f.mustSync(task)
	options := deleteOptions(t, f.kube.Actions(), "pods")
	if options.Preconditions == nil || *options.Preconditions.UID != pod.UID {
		t.Errorf("the Pod was deleted with the preconditions %v", options.Preconditions)
	}
	f.mustSync(task) // the cache still shows the Pod
}

func TestAPodThatHasChangedIsLookedAtAgainBeforeItIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.Suspend = new(true)
	f.store(task)
	f.storePod(f.podOf(task))
	failNext(&f.kube.Fake, "delete", "pods", 1, apierrors.NewConflict(podResource, "train", errors.New("changed")))
	if err := f.sync(task); !apierrors.IsConflict(err) {
		t.Fatalf("got error %v, want the conflict, so that the task is looked at again", err)
	}
	f.mustSync(task)
	if names := f.podNames(); names != nil {
		t.Errorf("Pods are left: %v", names)
	}
}

func TestAFinishedTaskIsDeletedByUIDAfterItsTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
	task.Status = v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, CompletionTime: new(metav1.NewTime(testTime))}
	f.store(task)
	f.clock.Step(59 * time.Second)
	f.mustSync(task)
	if writes := f.writes(); writes != nil {
		t.Fatalf("too early: %v", writes)
	}
	f.clock.Step(time.Second)
	f.mustSync(task)
	options := deleteOptions(t, f.fake.Actions(), "gputasks")
	if options.Preconditions == nil || *options.Preconditions.UID != task.UID {
		t.Errorf("the task was deleted with the preconditions %v", options.Preconditions)
	}
}

func TestADefaultTTLAppliesToTasksThatSpecifyNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		own     *int32
		deleted bool
	}{
		"no TTL of its own":       {nil, true},
		"a longer TTL of its own": {ptr.To[int32](3600), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(opts *options) { opts.defaultTTL = 60 })
			task := newTask("train", 1)
			task.Spec.TTLSecondsAfterFinished = test.own
			task.Status = v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, CompletionTime: new(metav1.NewTime(testTime))}
			f.store(task)
			f.clock.Step(59 * time.Second)
			f.mustSync(task)
			if writes := f.writes(); writes != nil {
				t.Fatalf("too early: %v", writes)
			}
			f.clock.Step(time.Second)
			f.mustSync(task)
			if deleted := len(f.writes()) > 0; deleted != test.deleted {
				t.Errorf("deleted after the default TTL: %t, want %t", deleted, test.deleted)
			}
		})
	}
}

func TestATaskMayBeDeletedInTheMomentItFinishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	f.store(task)
	pod := f.podOf(task)
	pod.Status.Phase = corev1.PodSucceeded
	f.storePod(pod)
	f.mustSync(task)
	deleteOptions(t, f.fake.Actions(), "gputasks")
}

func TestAControllerThatHasToStopLeavesTheRestOfTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"a", "b"} {
		f.enqueue(keyOf(f.store(newTask(name, 1))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	if !f.processNextWorkItem(ctx) {
		t.Fatal("the controller stopped before it had to")
	}
	cancel()
	if f.processNextWorkItem(ctx) {
		t.Error("the controller went on after it had to stop")
	}
	if diff := cmp.Diff([]string{"a"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func TestATaskThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	f.expectations.ExpectVersion(keyOf(task), "7")
	f.mustSync(task)
	if wait := f.expectations.Pending(keyOf(task)); wait != 0 {
		t.Errorf("still waiting %v for writes of a task that is gone", wait)
	}
}

func deleteOptions(t *testing.T, actions []clienttesting.Action, resource string) metav1.DeleteOptions {
	t.Helper()
	for _, action := range actions {
		if remove, ok := action.(clienttesting.DeleteAction); ok && action.GetResource().Resource == resource {
			return remove.GetDeleteOptions()
		}
	}
	t.Fatalf("no %s were deleted: %v", resource, actions)
	return metav1.DeleteOptions{}
}
