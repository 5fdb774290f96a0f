// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// keeping returns a claim of nodes.
func keeping(until time.Time, nodes ...string) *claim {
	one := &claim{nodes: map[string]mirror.Withheld{}, until: until}
	for _, node := range nodes {
		one.nodes[node] = mirror.Withheld{}
	}
	return one
}

// claimed returns the nodes that each gang has claimed, by gang: "big: a b".
func (f *fixture) claimed() []string {
	var list []string
	for group, one := range f.claims.list {
		list = append(list, group+": "+strings.Join(slices.Sorted(maps.Keys(one.nodes)), " "))
	}
	slices.Sort(list)
	return list
}

func (f *fixture) wantClaims(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.claimed()); diff != "" {
		f.t.Errorf("%s, claims (-want +got):\n%s", when, diff)
	}
}

func later(minutes int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp.Time = beginning.Add(time.Duration(minutes) * time.Minute) }
}

func cpus(count string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(count)
	}
}

func inNamespace(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }

func TestWhoWaitsForNodesThatAClaimLeavesIsWoken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claims map[string]*claim // before, by gang: of first, which is ahead, and last
		next   *claim            // of first
		want   bool
	}{
		"it claims nothing yet":              {nil, keeping(beginning.Add(time.Hour), "a"), false},
		"it claims the same":                 {map[string]*claim{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "a"), false},
		"it claims more":                     {map[string]*claim{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "a", "b"), false},
		"it claims another node":             {map[string]*claim{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "b"), true},
		"another one claims different nodes": {map[string]*claim{"last": keeping(beginning.Add(time.Hour), "b")}, keeping(beginning.Add(time.Hour), "a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("n", "l", 2)
			waits := pod("waits", 2, later(2))
			f.comes(at(pod("runs", 1), "n", 0), pod("first", 2), pod("last", 2, later(1)), waits)
			f.decide(waits)
			for group, one := range test.claims {
				f.claims.set(f.registry.Look(types.UID(group)), one)
			}
			f.clock.Step(10 * time.Second)
			f.activateDue()
			f.handle.takeActivated()
			f.claim(f.registry.Look("first"), test.next)
			f.clock.Step(time.Second)
			f.activateDue()
			if woken := slices.Contains(f.handle.takeActivated(), "waits"); woken != test.want {
				t.Errorf("who waits is woken: %t, want %t", woken, test.want)
			}
		})
	}
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// Of two victims, one leaves at once, and the other one only at the end of its grace period, or never.
func TestNodesAreKeptAsLongAsVictimsHaveTimeToLeave(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]time.Duration{30: 30 * time.Second, 1800: 30 * time.Minute, 1 << 40: time.Hour} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			t.Parallel()
			quick, slow := at(pod("quick", 1, prioritized(1)), "a", 0), at(pod("slow", 1, prioritized(1), grace(seconds)), "a", 1)
			big := pod("big", 2, prioritized(5))
			f := newFixture(t, quick, slow)
			f.addNode("a", "l", 2)
			f.comes(quick, slow, big)
			f.decide(big)
			if got := f.Preempt(t.Context(), big); got != "2 Pods of a lower priority are preempted" {
				t.Fatalf("the message is %q", got)
			}
			<-f.ended("big")
			f.goes(quick)
			deadline := f.clock.Now().Add(want + time.Duration(f.args.ClaimSeconds)*time.Second)
			for ; f.clock.Now().Before(deadline); f.clock.Step(time.Minute) {
				f.maintain(t.Context())
				f.decide(big)
				f.Preempt(t.Context(), big)
				f.wantClaims("while the second one has time", "big: a")
			}
			f.clock.Step(time.Minute)
			f.maintain(t.Context())
			f.wantClaims("later")
			f.decide(big)
			f.Preempt(t.Context(), big)
			f.wantClaims("in the pause that follows")
		})
	}
}

func TestAClaimLastsAsLongAsThoseWhoLeaveHaveTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	leaves := at(pod("leaves", 1, prioritized(1)), "a", 0)
	end, period := metav1.NewTime(beginning.Add(40*time.Minute)), int64(2400)
	leaves.DeletionTimestamp, leaves.DeletionGracePeriodSeconds = &end, &period
	waits := pod("waits", 1, prioritized(5))
	f.comes(leaves, waits)
	f.decide(waits)
	f.Preempt(t.Context(), waits)
	if got, want := f.claims.list["waits"].until, end.Add(time.Duration(f.args.ClaimSeconds)*time.Second); !got.Equal(want) {
		t.Errorf("its node is kept until %v, want %v", got, want)
	}
}

// Without reservations in time, only the claim keeps what a queue has to give back from the queue's next Pod.
func TestWhoHadToGiveBackGPUsDoesNotTakeThemAgainByItsPriority(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.args.Reservations = 0
	f.addNode("a", "l", 8)
	f.withQueues(queue("owner", 4, nil), queue("guest", 4, nil))
	high := prioritized(9)
	borrows := at(pod("borrows", 4, inQueue("guest"), high), "a", 0, 1, 2, 3)
	waits := pod("waits", 4, inQueue("owner"))
	f.comes(borrows, at(pod("other", 4, inQueue("guest"), high, since(beginning.Add(-time.Hour))), "a", 4, 5, 6, 7), waits)
	f.decide(waits)
	if got := f.Preempt(t.Context(), waits); !strings.Contains(got, "taken back from 1 Pod") {
		t.Fatalf("the message is %q", got)
	}
	f.wantClaims("when they are taken back", "waits: a")
	f.goes(borrows)
	again, urgent := pod("again", 4, inQueue("guest"), high), pod("urgent", 4, inQueue("owner"), high)
	f.comes(again, urgent)
	f.line.Order()
	if decision := f.decide(again); decision.Node != "" {
		t.Errorf("the queue that gave them back has them again: %+v", decision)
	}
	if decision := f.decide(urgent); decision.Node != "a" {
		t.Errorf("a more important Pod of the same queue does not get them: %+v", decision)
	}
}
