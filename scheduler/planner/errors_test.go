// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strings"
	"testing"
)

// A plugin that fails, rather than refuses, leaves the Pod its seat. Neither the Pod nor its
// gang may keep it.
func TestAPodWhoseCycleEndedWithAnErrorGivesItsSeatBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	pods := gang("train", 2, 2)
	f.comes(pods...)
	if first := f.StartCycle(pods[0], f.nodes(), false); first.Node == "" {
		t.Fatalf("no seat: %+v", first)
	}
	// The cycle ends here with an error; the queue tries the Pod again.
	second := f.StartCycle(pods[0], f.nodes(), false)
	if second.Node != "" || !strings.Contains(second.Waits, "an error") {
		t.Errorf("decision %+v, want that it waits because of the error", second)
	}
	if got := f.free(); got != 2 {
		t.Errorf("%d GPUs are free, want 2", got)
	}
	other := pod("other", 2)
	f.comes(other)
	if decision := f.StartCycle(other, f.nodes(), false); decision.Node == "" {
		t.Errorf("others can't have the GPUs: %+v", decision)
	}
}
