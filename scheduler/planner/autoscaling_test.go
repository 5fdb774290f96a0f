// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// withReports returns a planner with a gang of two that finds no place. Both exist for the
// API server.
func withReports(t *testing.T, report bool) (*fixture, []*corev1.Pod) {
	t.Helper()
	pods := gang("train", 2, 2)
	f := newFixture(t, []runtime.Object{pods[0], pods[1]}...)
	f.args.ReportUnschedulableMembers = report
	f.reports = newReporter(f.Planner)
	go f.reports.Run(t.Context())
	f.addNode("n", "leaf", 1)
	f.comes(pods...)
	return f, pods
}

// live returns a Pod as the API server has it.
func (f *fixture) live(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	got, err := f.handle.client.CoreV1().Pods(pod.Namespace).Get(f.t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func (f *fixture) conditionsOf(pod *corev1.Pod) []corev1.PodCondition {
	return f.live(pod).Status.Conditions
}

func TestTheOtherMembersOfAGangThatFailsAreReported(t *testing.T) {
	f, pods := withReports(t, true)
	decision := f.decide(pods[0])
	deadline := time.Now().Add(30 * time.Second)
	for len(f.conditionsOf(pods[1])) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the other member has no condition")
		}
		f.clock.Step(time.Second) // the reporter's ticker may not run yet
	}
	if got := f.conditionsOf(pods[1])[0]; got.Type != corev1.PodScheduled || got.Status != corev1.ConditionFalse ||
		got.Reason != corev1.PodReasonUnschedulable || got.Message != decision.Waits {
		t.Errorf("condition %+v, want Unschedulable because it %s", got, decision.Waits)
	}
	if got := f.conditionsOf(pods[0]); len(got) > 0 {
		t.Errorf("the leader, which kube-scheduler reports, has %+v", got)
	}
}

func TestMembersAreReportedOnlyIfTheArgumentsSaySo(t *testing.T) {
	f, pods := withReports(t, false)
	f.decide(pods[0])
	f.awaitReason(pods[0], func(reason *v1.WaitingReason) bool { return reason != nil })
	if got := f.conditionsOf(pods[1]); len(got) > 0 {
		t.Errorf("the other member has %+v", got)
	}
}

func TestAGangThatPodsLeaveForNeedsNoOtherRoom(t *testing.T) {
	f, pods := withReports(t, true)
	f.decide(pods[0])
	group := f.registry.Member(pods[0].UID).Group().Key
	attempt := f.registry.Attempt(pods[0].UID)
	for _, test := range []struct {
		what string
		do   func()
		want bool
	}{
		{"it only waits", func() {}, false},
		{"victims are being deleted", func() { f.evictor.Begin(group, nil, f.evictor.Budgets()) }, true},
		{"all have been", func() { f.evictor.Evict(t.Context(), group, pods[0], nil, nil) }, false},
		{"its victims are terminating", func() {
			f.kept.set(attempt, keeping(f.clock.Now().Add(time.Hour), "n"))
		}, true},
	} {
		if test.do(); f.makingRoom(group) != test.want {
			t.Errorf("%s: making room %t, want %t", test.what, !test.want, test.want)
		}
	}
}
