// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/refusals"
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
			f.clock.Step(refusals.FirstRetry)
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
	f.clock.Step(refusals.FirstRetry)
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

func TestARefusalThatHasGoneByItselfIsForgotten(t *testing.T) {
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

// storm is a controller with many tasks whose Pods an API server refuses.
type storm struct {
	*fixture
	tasks []*v1.GPUTask
	// refuse is the API server's answer to the next attempt, nil if it accepts the Pod.
	refuse func(attempt int) error
	// attempts is how many Pods it was asked to create, writes how many statuses.
	attempts, statuses int
}

func newStorm(t *testing.T, tasks int, refuse func(attempt int) error) *storm {
	t.Helper()
	s := &storm{fixture: newFixture(t), refuse: refuse}
	s.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.attempts++
		err := s.refuse(s.attempts)
		return err != nil, nil, err
	})
	s.fake.PrependReactor("update", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.statuses++
		return false, nil, nil
	})
	for i := range tasks {
		task := newTask(fmt.Sprintf("task-%d", i), 1)
		task.UID = types.UID(task.Name)
		task.Spec.Priority = "urgent"
		s.tasks = append(s.tasks, s.store(task))
	}
	return s
}

// pass lets time go by, handling all tasks every few seconds: more often than they are queued.
func (s *storm) pass(duration time.Duration) {
	s.t.Helper()
	const pause = 5 * time.Second
	for range duration / pause {
		s.clock.Step(pause)
		s.handleAll()
	}
}

func (s *storm) handleAll() {
	s.t.Helper()
	for _, task := range s.tasks {
		_ = s.sync(task) // refusals are errors
	}
	s.observe()
}

func quotaExceeded(used int) error {
	return apierrors.NewForbidden(podResource, "task", fmt.Errorf("exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: requests.falldio.com/gpu=%d, limited: requests.falldio.com/gpu=100", used))
}

func TestTasksThatAreRefusedForTheSameCauseTryOneAtATime(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(int) error{
		"a quota whose use changes": quotaExceeded,
		"a missing PriorityClass": func(int) error {
			return apierrors.NewForbidden(podResource, "task", errors.New("no PriorityClass with name urgent was found"))
		},
		"a webhook that counts": func(attempt int) error {
			return apierrors.NewBadRequest(fmt.Sprintf("admission webhook denied request %d of Pod task-%d", attempt, attempt%20))
		},
		"a policy": func(int) error {
			return apierrors.NewForbidden(podResource, "task", errors.New("violates PodSecurity"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorm(t, 20, refuse)
			s.pass(10 * time.Minute)
			s.attempts, s.statuses = 0, 0
			const minutes = 10
			s.pass(minutes * time.Minute)
			if s.attempts < minutes/2 || s.attempts > 2*minutes {
				t.Errorf("20 tasks made %d attempts in %d minutes, want about one a minute", s.attempts, minutes)
			}
			if s.statuses > 0 {
				t.Errorf("%d statuses were written although nothing has changed", s.statuses)
			}
		})
	}
}

func TestAPodThatAPolicyChangesIsRejectedIfTheControllerReliesOnIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string // empty if the Pod stays
	}{
		"a label of others":       {func(p *corev1.Pod) { p.Labels[v1.LabelApp] = "billing" }, ""},
		"a label that is added":   {func(p *corev1.Pod) { p.Labels["falldio.com/team"] = "vision" }, ""},
		"the scheduler":           {func(p *corev1.Pod) { p.Spec.SchedulerName = "gpu-scheduler-spreading" }, ""},
		"the task":                {func(p *corev1.Pod) { delete(p.Labels, v1.LabelTask) }, `the label falldio.com/gputask ("train", now "")`},
		"the index":               {func(p *corev1.Pod) { p.Labels[v1.LabelIndex] = "one" }, `the label falldio.com/index ("0", now "one")`},
		"the owner":               {func(p *corev1.Pod) { p.OwnerReferences = nil }, "the owner reference"},
		"when it starts again":    {func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "restartPolicy (Never, now Always)"},
		"what its containers are": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := f.store(newTask("train", 1))
			f.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				pod, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				if ok {
					tc.change(pod)
				}
				return false, nil, nil
			})
			err := f.sync(task)
			if (err == nil) != (tc.want == "") {
				t.Errorf("the sync ends with %v", err)
			}
			if got := slices.Contains(f.writes(), "delete pods"); got != (tc.want != "") {
				t.Errorf("the Pod is deleted: %v", got)
			}
			if tc.want == "" {
				return
			}
			f.observe()
			f.mustSync(task)
			condition := meta.FindStatusCondition(f.stored(task).Status.Conditions, v1.ConditionPodsCreated)
			if condition == nil || condition.Reason != "PodChanged" ||
				!strings.Contains(condition.Message, "an admission policy or a webhook changes "+tc.want+" of the Pod: exempt the Pods of GPUTasks from it") {
				t.Errorf("condition PodsCreated: %+v", condition)
			}
			if names := f.podNames(); len(names) > 0 {
				t.Errorf("Pods %v are left", names)
			}
		})
	}
}
