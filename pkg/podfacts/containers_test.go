// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWorkContainer(t *testing.T) {
	t.Parallel()
	gpu := corev1.ResourceRequirements{Limits: corev1.ResourceList{"falldio.com/gpu": resource.MustParse("1")}}
	slice := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}}
	claim := corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}
	tests := map[string]struct {
		annotation string
		containers []corev1.Container
		want       string
	}{
		"the only one":                           {"", []corev1.Container{{Name: "train"}}, "train"},
		"the one named gpu-task":                 {"proxy", []corev1.Container{{Name: "proxy"}, {Name: "gpu-task"}}, "gpu-task"},
		"the one that the injector says":         {"train", []corev1.Container{{Name: "proxy"}, {Name: "train"}}, "train"},
		"the annotation names none":              {"other", []corev1.Container{{Name: "proxy"}, {Name: "train", Resources: gpu}}, "train"},
		"the one with the GPU":                   {"", []corev1.Container{{Name: "proxy"}, {Name: "train", Resources: gpu}}, "train"},
		"the one with a slice":                   {"", []corev1.Container{{Name: "proxy"}, {Name: "train", Resources: slice}}, "train"},
		"the one with the claim":                 {"", []corev1.Container{{Name: "proxy"}, {Name: "train", Resources: claim}}, "train"},
		"the first if nothing says it":           {"", []corev1.Container{{Name: "train"}, {Name: "proxy"}}, "train"},
		"none of a Pod of which nothing is kept": {"", nil, ""},
	}
	for name, tc := range tests {
		pod := makePod().with(func(p *corev1.Pod) {
			p.Annotations, p.Spec.Containers = map[string]string{AnnotationDefaultContainer: tc.annotation}, tc.containers
		}).Pod
		if got := WorkContainer(pod); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestRoleOf(t *testing.T) {
	t.Parallel()
	pod := makePod().initContainer("prepare", false, ended(0, "Completed")).initContainer("mesh", true, running()).Pod
	for name, want := range map[string]Role{"gpu-task": Work, "proxy": Companion, "mesh": Sidecar, "prepare": Init, "debugger": Companion} {
		if got := RoleOf(pod, name); got != want {
			t.Errorf("the role of container %s is %v, want %v", name, got, want)
		}
	}
}

func TestEverStarted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  podBuilder
		want bool
	}{
		"no statuses":                            {makePod(), false},
		"all wait":                               {makePod().states(waiting("ImagePullBackOff"), waiting("ContainerCreating")), false},
		"the kubelet makes up an end":            {makePod().states(notFound(), notFound()), false},
		"one runs":                               {makePod().states(waiting("ImagePullBackOff"), running()), true},
		"one has ended":                          {makePod().states(ended(0, "Completed"), waiting("ImagePullBackOff")), true},
		"it crashed and waits":                   {makePod().states(waiting("CrashLoopBackOff")).wasRunning(), true},
		"one was tried to":                       {makePod().states(notStarted()), true},
		"one that was lost had run":              {makePod().states(notFound()).wasRunning(), true},
		"initialization has begun":               {makePod().initContainer("prepare", false, running()).states(waiting("PodInitializing")), true},
		"the image of initialization is missing": {makePod().initContainer("prepare", false, waiting("ImagePullBackOff")).states(waiting("PodInitializing")), false},
	}
	for name, tc := range tests {
		if got := EverStarted(tc.pod.Pod); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestWaitsFor(t *testing.T) {
	t.Parallel()
	if got := WaitsFor(makePod().states(waiting("ContainerCreating"), waiting("ContainerCreating")).Pod); got != nil {
		t.Errorf("got %v for containers whose turn has not come", got)
	}
	pod := makePod().initContainer("prepare", false, waiting("ErrImagePull")).states(waiting("PodInitializing"), waiting("PodInitializing")).Pod
	if got := WaitsFor(pod); got == nil || got.Container != "prepare" || got.Reason != "ErrImagePull" {
		t.Errorf("got %v, want what the image of the initialization waits for", got)
	}
}

func TestWorkEnd(t *testing.T) {
	t.Parallel()
	if end := WorkEnd(makePod().states(running(), ended(1, "Error")).Pod); end != nil {
		t.Errorf("got the end %v of another container", end)
	}
	if end := WorkEnd(makePod().states(ended(3, "Error"), running()).Pod); end == nil || end.ExitCode != 3 {
		t.Errorf("got %v, want the work's exit code 3", end)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	bound := func(since time.Duration) podBuilder {
		return makePod().with(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(since)}}
		})
	}
	if at, known := BoundAt(bound(50 * time.Minute).Pod); !known || !at.Equal(ago(50*time.Minute).Time) {
		t.Errorf("it was bound at %v (known %v), want the time of the condition", at, known)
	}
	if at, known := EndedAt(makePod().states(ended(0, "Completed"), running()).Pod); !known || !at.Equal(ago(time.Minute).Time) {
		t.Errorf("it ended at %v (known %v), want the end of the container", at, known)
	}
	if at, known := EndedAt(makePod().states(notFound()).Pod); known {
		t.Errorf("it ended at %v, but nobody knows when", at)
	}
	restarted := makePod().states(running()).with(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].RestartCount = 2
		p.Status.ContainerStatuses[0].State.Running.StartedAt = ago(5 * time.Minute)
	}).Pod
	if at := Started(restarted); !at.Equal(ago(5 * time.Minute).Time) {
		t.Errorf("its work began at %v, want the last start of its container", at)
	}
	if at := FirstStarted(restarted); !at.Equal(ago(time.Hour).Time) {
		t.Errorf("it began first at %v, want its own start", at)
	}
}

// TestTimesAreThoseOfTheAPIServer has a Pod that was bound an hour ago, whose container was started again 40 minutes
// ago and ended a minute ago.
func TestTimesAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// ahead is by how much its node's clock is, seen is how long after its Binding the node saw the Pod.
		ahead, seen time.Duration
		// wrong is by how much what is returned is too late, and latest by how much EndedBy is.
		wrong, latest time.Duration
	}{
		"a clock that is right":            {},
		"a node that is slow to see it":    {seen: 30 * time.Second},
		"a clock that is a little ahead":   {ahead: 50 * time.Second, wrong: 50 * time.Second, latest: 50 * time.Second},
		"a clock that is hours ahead":      {ahead: 3 * time.Hour, latest: 3 * time.Hour},
		"a node that rebooted before":      {seen: 5 * time.Minute},
		"a clock that is a little behind":  {ahead: -20 * time.Second, latest: maxPickUp},
		"a clock that is hours behind":     {ahead: -3 * time.Hour, latest: maxPickUp},
		"a clock that was never set":       {ahead: time.Unix(7200, 0).Sub(now), latest: maxPickUp},
		"a node that came back to see it":  {seen: 10 * time.Minute, wrong: -10 * time.Minute},
		"one that is ahead, and came back": {ahead: 3 * time.Hour, seen: 10 * time.Minute, wrong: -10 * time.Minute, latest: 3 * time.Hour},
	} {
		node := func(since time.Duration) metav1.Time { return ago(since - tc.ahead) }
		restarted := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: node(40 * time.Minute)}}
		pod := makePod().states(restarted, running()).with(func(p *corev1.Pod) {
			seen := node(time.Hour - tc.seen)
			p.Status.StartTime, p.Status.ContainerStatuses[0].RestartCount = &seen, 1
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}
		})
		check := func(what string, got time.Time, since, wrong time.Duration) {
			t.Helper()
			if want := ago(since - wrong); !got.Equal(want.Time) {
				t.Errorf("%s: %s at %v, want %v", name, what, got, want)
			}
		}
		check("its work began", Started(pod.Pod), 40*time.Minute, tc.wrong)
		check("it began first", FirstStarted(pod.Pod), time.Hour-tc.seen, tc.wrong)
		end := ended(0, "Completed")
		end.Terminated.StartedAt, end.Terminated.FinishedAt = node(40*time.Minute), node(time.Minute)
		pod = pod.states(end)
		began, _ := BeganAt(pod.Pod)
		check("its container began", began, 40*time.Minute, tc.wrong)
		at, _ := EndedAt(pod.Pod)
		check("it ended", at, time.Minute, tc.wrong)
		by, _ := EndedBy(pod.Pod)
		check("it had ended", by, time.Minute, tc.latest)
		if got := ServerTime(pod.Pod, NodeTime(pod.Pod, now)); !got.Equal(now) {
			t.Errorf("%s: there and back again it is %v", name, got)
		}
	}
}

func TestEndedBeforeDeletion(t *testing.T) {
	t.Parallel()
	deleted := func(since time.Duration, lag time.Duration) *corev1.Pod {
		return makePod().phase(corev1.PodFailed).states(ended(1, "Error")).with(func(p *corev1.Pod) {
			grace, at := int64(30), ago(since-30*time.Second)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour - lag)}}
		}).Pod
	}
	if !EndedBeforeDeletion(deleted(30*time.Second, 0)) {
		t.Error("the containers ended a minute ago, the deletion was requested 30 s ago")
	}
	if EndedBeforeDeletion(deleted(90*time.Second, 0)) {
		t.Error("the containers ended a minute ago, the deletion was requested 90 s ago")
	}
	if EndedBeforeDeletion(deleted(30*time.Second, 25*time.Second)) {
		t.Error("the node's clock is 25 s behind, so that the end may be an effect of the deletion")
	}
}
