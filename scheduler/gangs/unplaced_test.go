// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestThoseThatWaitWithTheLeaderOfAGangThatFails(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 4, 2)
	f := newFixture(t, append(bindFirst(pods, 1), pod("alone"))...)
	check := func(when string, fails bool, want ...string) {
		t.Helper()
		if f.Fails("default/train") != fails {
			t.Errorf("%s: fails %t", when, !fails)
		}
		leader := f.Leader("default/train")
		if fails != (leader != nil) || leader != nil && leader.Name != "train-1" {
			t.Errorf("%s: leader %v", when, leader)
		}
		if diff := cmp.Diff(append([]string{}, want...), namesOf(f.Unplaced("default/train"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("before an attempt", false)
	f.fail(pods[1], time.Minute)
	check("after one that failed", true, "train-2", "train-3")
	f.Observe(ending(pods[2]))
	check("when one is being deleted", true, "train-3")
	f.seat(pods[1], 1)
	check("with a plan", false)
	f.fail(pod("alone"), time.Minute)
	if !f.Fails("alone") || f.Unplaced("alone") != nil {
		t.Error("a Pod in no gang fails, and nobody waits with it")
	}
}
