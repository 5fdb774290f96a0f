// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestUnseenWrites(t *testing.T) {
	t.Parallel()
	task := cache.NewObjectName("default", "train")
	tests := map[string]struct {
		happens func(*unseenWrites, *clocktesting.FakeClock)
		want    time.Duration
	}{
		"nothing was written": {
			func(*unseenWrites, *clocktesting.FakeClock) {}, 0,
		},
		"a Pod was created": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) { u.createsPod(task, "a") }, unseenTimeout,
		},
		"a Pod was created and seen": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) { u.createsPod(task, "a"); u.sawPod(task, "a") }, 0,
		},
		"one of two Pods was seen": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) {
				u.createsPod(task, "a")
				u.createsPod(task, "b")
				u.sawPod(task, "a")
			}, unseenTimeout,
		},
		"an older version of the task was seen": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) { u.wroteTask(task, "10"); u.sawTask(task, "9") }, unseenTimeout,
		},
		"the written version was seen": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) { u.wroteTask(task, "10"); u.sawTask(task, "10") }, 0,
		},
		"a newer version was seen": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) { u.wroteTask(task, "9"); u.sawTask(task, "10") }, 0,
		},
		"the status was seen but not the Pod": {
			func(u *unseenWrites, _ *clocktesting.FakeClock) {
				u.wroteTask(task, "9")
				u.createsPod(task, "a")
				u.sawTask(task, "9")
			}, unseenTimeout,
		},
		"a lost event is waited for only so long": {
			func(u *unseenWrites, clock *clocktesting.FakeClock) {
				u.createsPod(task, "a")
				clock.Step(unseenTimeout)
			}, 0,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakeClock(testTime)
			unseen := newUnseenWrites(clock)
			tc.happens(unseen, clock)
			if got := unseen.waitFor(task); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
