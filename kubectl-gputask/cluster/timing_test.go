// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
)

func TestSleepSaysThatTheContextEndedEvenIfTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 { // select takes either
		if err := cluster.Sleep(ctx, clock.RealClock{}, 0); !errors.Is(err, context.Canceled) {
			t.Fatalf("it returned %v", err)
		}
	}
}

func TestSleepReturnsNothingWhenTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := cluster.Sleep(t.Context(), clock.RealClock{}, time.Minute); err != nil {
			t.Error(err)
		}
		if slept := time.Since(start); slept != time.Minute {
			t.Errorf("it slept for %v", slept)
		}
	})
}
