// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eventfilter_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/scheduler/eventfilter"
)

// member returns a Pod of a controller; "" for a Pod without.
func member(name, controller string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if controller != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(controller), Controller: new(true)}}
	}
	return pod
}

// written returns what a recorder has written since the last call.
func written(recorder *events.FakeRecorder) []string {
	var list []string
	for {
		select {
		case event := <-recorder.Events:
			list = append(list, event)
		default:
			return list
		}
	}
}

func TestACauseIsRecordedOnceForThePodsOfAController(t *testing.T) {
	t.Parallel()
	to, clock := events.NewFakeRecorder(100), clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	recorder := eventfilter.Wrap(func(string) events.EventRecorderLogger { return to }, clock)("gpu-scheduler")
	fails := func(pod *corev1.Pod, message string) {
		recorder.WithLogger(klog.Background()).Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", message)
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if got := written(to); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	const few = "Warning FailedScheduling "
	for i := range 6 {
		fails(member(fmt.Sprintf("sweep-%d", i), "sweep"), fmt.Sprintf("%d nodes have too few free GPUs", 9-i))
	}
	expect("six members that differ in numbers only", few+"9 nodes have too few free GPUs")
	fails(member("sweep-0", "sweep"), "no node has h100")
	expect("another cause", few+"no node has h100")
	fails(member("sweep-0", "sweep"), "no node has h200")
	expect("another name", few+"no node has h200")
	fails(member("other-0", "other"), "no node has h100")
	fails(member("alone", ""), "no node has h100")
	fails(member("alone-too", ""), "no node has h100")
	expect("Pods of others", few+"no node has h100", few+"no node has h100", few+"no node has h100")
	recorder.Eventf(member("sweep-0", "sweep"), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "assigned to %s", "a")
	recorder.Eventf(member("sweep-0", "sweep"), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "assigned to %s", "a")
	expect("other Events are recorded each time", "Normal Scheduled assigned to a", "Normal Scheduled assigned to a")
	clock.Step(9 * time.Minute)
	fails(member("sweep-5", "sweep"), "no node has h100")
	expect("the same soon after")
	clock.Step(time.Minute)
	fails(member("sweep-5", "sweep"), "no node has h100")
	expect("the same later", few+"no node has h100")
}
