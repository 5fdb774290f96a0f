// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"testing"
	"time"
)

// Eventually waits until a condition holds; its text describes the current state otherwise. The
// test ends if it doesn't hold within the limit.
func Eventually(t *testing.T, limit time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	begin := time.Now()
	for {
		ok, instead := holds()
		if ok {
			if took := time.Since(begin); took > 2*PollEvery { // otherwise it held from the beginning
				t.Logf("%.1fs until %s", took.Seconds(), what)
			}
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s; instead: %s", limit, what, instead)
		}
		time.Sleep(PollEvery)
	}
}
