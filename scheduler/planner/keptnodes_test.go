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
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// keeping returns nodes that are kept.
func keeping(until time.Time, nodes ...string) *keptFor {
	one := &keptFor{nodes: map[string]mirror.Withheld{}, until: until}
	for _, node := range nodes {
		one.nodes[node] = mirror.Withheld{}
	}
	return one
}

// keptByGang returns the nodes that are kept for each gang, by gang: "big: a b".
func (f *fixture) keptByGang() []string {
	var list []string
	for group, one := range f.kept.list {
		list = append(list, group+": "+strings.Join(slices.Sorted(maps.Keys(one.nodes)), " "))
	}
	slices.Sort(list)
	return list
}

func (f *fixture) wantKept(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.keptByGang()); diff != "" {
		f.t.Errorf("%s, kept nodes (-want +got):\n%s", when, diff)
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

func TestWhoWaitsForNodesThatAreNoLongerKeptIsWoken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kept map[string]*keptFor // before, by gang: of first, which is ahead, and last
		next *keptFor            // of first
		want bool
	}{
		"nothing is kept for it yet": {nil, keeping(beginning.Add(time.Hour), "a"), false},
		"the same is":                {map[string]*keptFor{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "a"), false},
		"more is":                    {map[string]*keptFor{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "a", "b"), false},
		"another node is":            {map[string]*keptFor{"first": keeping(beginning.Add(time.Hour), "a")}, keeping(beginning.Add(time.Hour), "b"), true},
		"different nodes are kept for another one": {map[string]*keptFor{"last": keeping(beginning.Add(time.Hour), "b")}, keeping(beginning.Add(time.Hour), "a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("n", "l", 2)
			waits := pod("waits", 2, later(2))
			f.comes(at(pod("runs", 1), "n", 0), pod("first", 2), pod("last", 2, later(1)), waits)
			f.decide(waits)
			for group, one := range test.kept {
				f.kept.set(f.registry.Look(types.UID(group)), one)
			}
			f.clock.Step(10 * time.Second)
			f.activateDue()
			f.handle.takeActivated()
			f.keepNodes(f.registry.Look("first"), test.next)
			f.clock.Step(time.Second)
			f.activateDue()
			if woken := slices.Contains(f.handle.takeActivated(), "waits"); woken != test.want {
				t.Errorf("who waits is woken: %t, want %t", woken, test.want)
			}
		})
	}
}

func TestPrioritiesDecideAgainWhoMayHaveKeptNodesOnceTheLastGPUQueueIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withQueues(queue("vision", 0, nil), queue("speech", 0, nil))
	f.addNode("a", "l", 2)
	f.comes(pod("waits", 1, inQueue("vision")), pod("urgent", 1, prioritized(5), inQueue("speech")))
	one := keeping(beginning.Add(time.Minute), "a")
	one.queue = "vision"
	f.kept.set(f.registry.Attempt("waits"), one)
	if diff := cmp.Diff([]string{"a"}, f.keptForOthers(f.registry.Attempt("urgent"))); diff != "" {
		t.Errorf("kept from a gang of another queue (-want +got):\n%s", diff)
	}
	f.line.SetState(queues.NewState(nil, nil, nil))
	if got := f.keptForOthers(f.registry.Attempt("urgent")); len(got) > 0 {
		t.Errorf("without GPUQueues, these nodes are kept from a gang of a higher priority: %v", got)
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
				f.wantKept("while the second one has time", "big: a")
			}
			f.clock.Step(time.Minute)
			f.maintain(t.Context())
			f.wantKept("later")
			f.decide(big)
			f.Preempt(t.Context(), big)
			f.wantKept("in the pause that follows")
		})
	}
}

func TestNodesAreKeptAsLongAsThoseWhoLeaveHaveTime(t *testing.T) {
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
	if got, want := f.kept.list["waits"].until, end.Add(time.Duration(f.args.ClaimSeconds)*time.Second); !got.Equal(want) {
		t.Errorf("its node is kept until %v, want %v", got, want)
	}
}

// Without bookings, only kept nodes keep what a queue has to give back from the queue's next Pod.
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
	f.wantKept("when they are taken back", "waits: a")
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
