// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestARefusalIsTriedOnceNotForEveryPod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 500))
	failNext(&f.kube.Fake, "create", "pods", 500, apierrors.NewForbidden(podResource, "train-0", errors.New("exceeded quota: gpus")))
	if err := f.sync(task); err == nil {
		t.Fatal("a refusal has to be tried again")
	}
	if diff := cmp.Diff([]string{"update gputasks/status", "create services", "create pods"}, f.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
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
			v1.PhasePending, `there is no PriorityClass "urgent": create it, or recreate the task with another spec.priority`, "Warning PriorityClassNotFound",
		},
		"an exceeded quota": {
			apierrors.NewForbidden(podResource, "train", errors.New("exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: 4, limited: 4")),
			v1.PhasePending, "exceeded quota: gpus, requested: requests.falldio.com/gpu=1, limited: 4", "Warning QuotaExceeded",
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
		"a template, or a webhook, that makes no valid Pod": {
			apierrors.NewInvalid(gvk, "train", field.ErrorList{field.Required(field.NewPath("spec", "volumes").Index(0).Child("name"), "")}),
			v1.PhasePending, "the API server refuses the Pod: spec.volumes[0].name: Required value; correct the template while the task is suspended, unless a webhook has changed the Pod", "Warning InvalidPod",
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
			f.mustSync(task) // tells the user
			status := f.stored(task).Status
			if status.Phase != tc.phase || status.Message != tc.message {
				t.Errorf("got %s: %q\nwant %s: %q", status.Phase, status.Message, tc.phase, tc.message)
			}
			if event := <-f.events.Events; !strings.HasPrefix(event, tc.event) {
				t.Errorf("event %q, want %q", event, tc.event)
			}
			f.observe()
			f.clock.Step(firstRetry)
			f.mustSync(task) // tries again, which goes well
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
	f.mustSync(task)
	f.clock.Step(firstRetry)
	if err := f.sync(task); err == nil {
		t.Fatal("a name that is taken has to be tried again")
	}
	status := f.stored(task).Status
	if want := `a Pod named "train" exists already and does not belong to this task: delete that Pod, or recreate the task under another name`; status.Message != want {
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
		pod := f.podOf(owner)
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
			pod(task, func(p *corev1.Pod) { delete(p.Labels, v1.LabelTask) }),
			`Pod "train" has lost its label falldio.com/gputask=train: restore the label or delete the Pod`,
		},
		"a Pod of a former task of this name": {pod(former), `waiting for the Pod "train" of a previous task to be deleted`},
		"a Pod that is on its way out": {
			pod(other, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: testTime} }),
			`waiting for the Pod "train" of a previous task to be deleted`,
		},
		"a Pod of another task": {
			pod(other), `a Pod named "train" exists already and belongs to GPUTask "other": recreate this task under another name`,
		},
	} {
		got := ""
		if obstacle := nameConflict(task, "Pod", tc.pod); obstacle != nil {
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
	stray := f.podOf(task)
	delete(stray.Labels, v1.LabelTask) // so that the cache does not show it
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
