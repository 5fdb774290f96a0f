// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/leadership"
)

func TestNothingIsPlannedBeforeTheSnapshotShowsAllPodsThatRan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// meanwhile is what happens after the first attempt.
		meanwhile func(f *fixture, unseen *corev1.Pod)
		want      bool
	}{
		"a Pod is not shown": {meanwhile: func(*fixture, *corev1.Pod) {}},
		"it is shown later":  {func(f *fixture, unseen *corev1.Pod) { f.infos["node-0"].AddPod(unseen) }, true},
		"it has gone":        {func(f *fixture, unseen *corev1.Pod) { f.podDeleted(unseen) }, true},
		"it is shown, and not yet one that was bound meanwhile": {func(f *fixture, unseen *corev1.Pod) {
			f.infos["node-0"].AddPod(unseen)
			f.podUpdated(nil, at(pod("later", 1), "node-0"))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.begins(leadership.Always())
			unseen, waits := at(pod("unseen", 1), "node-0", 0), pod("waits", 1)
			f.comes(at(pod("seen", 1), "node-0", 1), waits)
			f.podUpdated(nil, unseen)
			if decision := f.decide(waits); decision.Node != "" || f.term.WasCurrent() {
				t.Fatalf("at first: %+v", decision)
			}
			test.meanwhile(f, unseen)
			if decision := f.decide(waits); (decision.Node != "") != test.want {
				t.Errorf("then: %+v, want a node: %t", decision, test.want)
			}
		})
	}
}

// While one Pod is waited for, the others are not looked at in each cycle.
func TestWaitingForTheSnapshotDoesNotCostMoreWithMorePods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.begins(leadership.Always())
	for i := range 20_000 {
		f.infos["node-0"].AddPod(at(pod(fmt.Sprint("runs-", i), 1), "node-0", i%8))
		f.podUpdated(nil, at(pod(fmt.Sprint("runs-", i), 1), "node-0", i%8))
	}
	f.podUpdated(nil, at(pod("unseen", 1), "node-0", 0))
	f.mirror.Refresh(f.nodes())
	least := time.Hour
	for range 40 {
		begin := time.Now()
		if f.term.IsCurrent() {
			t.Fatal("a Pod is not shown, and not waited for")
		}
		least = min(least, time.Since(begin))
	}
	if least > 100*time.Microsecond {
		t.Errorf("it takes %v, want at most 100 µs", least)
	}
}
