// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A gang that has just been refused gets its reservation at once, although nothing has changed on the nodes since the
// reservations were revised: else others could take the nodes that it needs.
func TestAGangThatHasJustComeGetsAReservationOnAQuietCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.addNode("node-1", "a", 8)
	f.withQueues(queue("all", 0, nil))
	runs := at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7)
	members := []*corev1.Pod{pod("large-0", 8, in("large", 2, 0), runsFor(time.Hour)), pod("large-1", 8, in("large", 2, 1), runsFor(time.Hour))}
	f.comes(append(members, runs)...)
	f.line.Order()
	if decision := f.decide(members[0]); decision.Node != "" {
		t.Fatalf("the gang was placed: %+v", decision)
	}
	f.clock.Step(2 * time.Second)
	f.line.Order()
	long := pod("long", 4, runsFor(2*time.Hour))
	f.comes(long)
	if decision := f.decide(long); decision.Node != "" {
		t.Errorf("what runs longer was placed on %s, which the gang needs", decision.Node)
	}
}
