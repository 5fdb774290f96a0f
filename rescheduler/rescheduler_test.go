// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change wakes the rescheduler only while there is a plan that may wait for it.
func TestWhatWakesTheRescheduler(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	woken := func() bool {
		select {
		case <-f.wake:
			return true
		default:
			return false
		}
	}
	if f.Changed(); woken() {
		t.Error("a Pod wakes it although there is no plan")
	}
	f.plan.Spec.Approved = false
	f.create()
	f.pass()
	if f.Changed(); woken() {
		t.Error("a Pod wakes it although the plan waits for approval")
	}
	f.plan = f.current()
	f.plan.Spec.Approved = true
	if _, err := f.fake.FalldioV1().MovePlans().Update(t.Context(), f.plan, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.observe()
	f.pass()
	if f.Changed(); !woken() {
		t.Error("a Pod does not wake it although there is a plan")
	}
}

func TestTheReschedulerRunsUntilItIsToldToStop(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.create()
	f.caches = nil // the fixture fills them
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	for f.current().Status.Phase == "" {
		f.clock.Step(passRetry)
	}
	stop()
	<-ended
}
