// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
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
	want := []string{"update gputasks/status", "create pods", "create pods", "create pods"}
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
	f.clock.Step(unseenTimeout)
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
		f.mustSync(task)
		if diff := cmp.Diff([]string{"train-0", "train-1", "train-2", "train-3", "train-4"}, f.podNames()); diff != "" {
			t.Errorf("error at Pod %d: Pods (-want +got):\n%s", n, diff)
		}
	}
}

func TestARefusalIsTriedOnceNotForEveryPod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 500))
	failNext(&f.kube.Fake, "create", "pods", 500, apierrors.NewForbidden(podResource, "train-0", errors.New("exceeded quota: gpus")))
	if err := f.sync(task); err == nil {
		t.Fatal("a refusal has to be tried again")
	}
	if creates := len(f.kube.Actions()); creates != 1 {
		t.Errorf("%d requests, want 1", creates)
	}
}

func TestWhatTheAPIServerRefusesIsExplained(t *testing.T) {
	t.Parallel()
	gvk := schema.GroupKind{Kind: "Pod"}
	tests := map[string]struct {
		refusal error
		phase   v1.GPUTaskPhase
		message string
		event   string
	}{
		"a missing PriorityClass": {
			apierrors.NewForbidden(podResource, "train", errors.New("no PriorityClass with name urgent was found")),
			v1.PhasePending, `there is no PriorityClass "urgent": create it, or create the task anew with another spec.priority`, "Warning PriorityClassNotFound",
		},
		"an exceeded quota": {
			apierrors.NewForbidden(podResource, "train", errors.New("exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: 4, limited: 4")),
			v1.PhasePending, "exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: 4, limited: 4", "Warning QuotaExceeded",
		},
		"any other prohibition": {
			apierrors.NewForbidden(podResource, "train", errors.New("violates PodSecurity")),
			v1.PhasePending, "violates PodSecurity", "Warning Forbidden",
		},
		"a webhook that refuses": {
			apierrors.NewBadRequest(`admission webhook "policy.example.com" denied the request: no team label`),
			v1.PhasePending, `the API server refuses the Pod: admission webhook "policy.example.com" denied the request: no team label`, "Warning PodRefused",
		},
		"a webhook that is broken": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "failed calling webhook"}},
			v1.PhasePending, "the API server refuses the Pod: failed calling webhook", "Warning PodRefused",
		},
		"an admission policy that refuses": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "ValidatingAdmissionPolicy 'teams' denied request: no team label",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "no team label"}}}}},
			v1.PhasePending, "the API server refuses the Pod: ValidatingAdmissionPolicy 'teams' denied request: no team label", "Warning PodRefused",
		},
		"a template that makes no Pod": {
			apierrors.NewInvalid(gvk, "train", field.ErrorList{field.Required(field.NewPath("spec", "volumes").Index(0).Child("name"), "")}),
			v1.PhaseFailed, "the Pod from spec.template is not valid: spec.volumes[0].name: Required value", "Warning InvalidPod",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := newTask("train", 1)
			task.Spec.Priority = "urgent"
			f.store(task)
			failNext(&f.kube.Fake, "create", "pods", 1, tc.refusal)
			if err := f.sync(task); err == nil {
				t.Fatal("a refusal has to be tried again")
			}
			f.observe()
			f.mustSync(task) // tells the user; and tries again, which goes well unless it is hopeless
			status := f.stored(task).Status
			if status.Phase != tc.phase || status.Message != tc.message {
				t.Errorf("got %s: %q\nwant %s: %q", status.Phase, status.Message, tc.phase, tc.message)
			}
			if event := <-f.events.Events; !strings.HasPrefix(event, tc.event) {
				t.Errorf("event %q, want %q", event, tc.event)
			}
			if tc.phase == v1.PhaseFailed {
				return
			}
			f.observe()
			f.mustSync(task)
			if got := f.stored(task).Status.Message; got != "waiting to start" {
				t.Errorf("after the Pod was created the message is %q", got)
			}
		})
	}
}

func TestAForeignPodIsReportedAndNeverTouched(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default"}}
	if err := f.kube.Tracker().Add(foreign); err != nil {
		t.Fatal(err)
	}
	if err := f.sync(task); err == nil {
		t.Fatal("a name that is taken has to be tried again")
	}
	f.observe()
	if err := f.sync(task); err == nil {
		t.Fatal("a name that is taken has to be tried again")
	}
	status := f.stored(task).Status
	if want := `a Pod named "train" exists already and does not belong to this task: delete that Pod, or create the task anew under another name`; status.Message != want {
		t.Errorf("got %q\nwant %q", status.Message, want)
	}
	for _, write := range f.writes() {
		if write != "update gputasks/status" && write != "create pods" {
			t.Errorf("unexpected write: %s", write)
		}
	}
}

func TestAPodInTheWayIsExplainedByItsOwner(t *testing.T) {
	t.Parallel()
	task := newTask("train", 1)
	former, other := newTask("train", 1), newTask("other", 1)
	former.UID, other.UID = "former", "other"
	pod := func(owner *v1.GPUTask, change ...func(*corev1.Pod)) *corev1.Pod {
		f := newFixture(t)
		pod := f.podOf(owner, 0)
		pod.Name = "train"
		for _, apply := range change {
			apply(pod)
		}
		return pod
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"its own Pod, which the cache does not show yet": {pod(task), ""},
		"its own Pod without the label": {
			pod(task, func(p *corev1.Pod) { delete(p.Labels, v1.LabelApp) }),
			`Pod "train" has lost its label app=gpu-task: restore the label or delete the Pod`,
		},
		"a Pod of a former task of this name": {pod(former), `waiting for the Pod "train" of a former task to stop`},
		"a Pod that is on its way out": {
			pod(other, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: testTime} }),
			`waiting for the Pod "train" of a former task to stop`,
		},
		"a Pod of another task": {
			pod(other), `a Pod named "train" exists already and belongs to GPUTask "other": create this task anew under another name`,
		},
	} {
		got := ""
		if obstacle := nameClash(task, tc.pod); obstacle != nil {
			got = obstacle.Message
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestAnObstacleThatHasGoneByItselfIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	stray := f.podOf(task, 0)
	delete(stray.Labels, v1.LabelApp) // so that the cache does not show it
	if err := f.kube.Tracker().Add(stray); err != nil {
		t.Fatal(err)
	}
	if err := f.sync(task); err == nil {
		t.Fatal("a name that is taken has to be tried again")
	}
	f.observe() // the label is restored: the cache shows the Pod
	f.mustSync(task)
	f.observe()
	f.mustSync(task)
	if condition := meta.FindStatusCondition(f.stored(task).Status.Conditions, v1.ConditionPodsCreated); condition == nil || condition.Status != metav1.ConditionTrue {
		t.Errorf("condition PodsCreated: %+v", condition)
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
	pod := f.storePod(f.podOf(task, 0))
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
	f.storePod(f.podOf(task, 0))
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

func TestATaskMayBeDeletedInTheMomentItFinishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	f.store(task)
	pod := f.podOf(task, 0)
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
	if !f.handleNextTask(ctx) {
		t.Fatal("the controller stopped before it had to")
	}
	cancel()
	if f.handleNextTask(ctx) {
		t.Error("the controller went on after it had to stop")
	}
	if diff := cmp.Diff([]string{"a"}, f.podNames()); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}

func TestAStandbyQueuesNothingAndALeaderBeginsWithEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.working.Store(false)
	task := newTask("train", 1)
	f.show(task, newTask("other", 1))
	f.taskChanged(task, task)
	f.podChanged(f.podOf(task, 0))
	if got := f.queue.Len(); got != 0 {
		t.Errorf("the standby has queued %d tasks", got)
	}
	f.takeOver()
	if got := f.queue.Len(); got != 2 {
		t.Errorf("the leader begins with %d tasks, want 2", got)
	}
}

func TestATaskThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	f.unseen.wroteTask(keyOf(task), "7")
	f.mustSync(task)
	if wait := f.unseen.waitFor(keyOf(task)); wait != 0 {
		t.Errorf("still waiting %v for writes of a task that is gone", wait)
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
		"a new task concerns all that wait for it, through others too": {
			func(f *fixture, task *v1.GPUTask) { f.enqueueDependents(task, true) }, []string{"b", "c"},
		},
		"a deleted task concerns itself and all that wait for it": {
			func(f *fixture, task *v1.GPUTask) { f.taskDeleted(f.t.Context(), task) }, []string{"a", "b", "c"},
		},
		"a new phase concerns those that wait for it directly": {
			func(f *fixture, task *v1.GPUTask) {
				after := task.DeepCopy()
				after.Status.Phase = v1.PhaseSucceeded
				f.taskChanged(task, after)
			}, []string{"a", "b"},
		},
		"a change without a new phase concerns nobody else": {
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
