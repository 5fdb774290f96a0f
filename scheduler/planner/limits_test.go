// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// family returns the queues of two siblings that are guaranteed 4 GPUs each, of a parent that may hold 8, and of a
// stranger. Those who have to give back GPUs do so at once.
func family() []*v1.GPUQueue {
	parent, owner, guest, stranger := queue("parent", 8, ptr.To[int32](8)), queue("owner", 4, nil), queue("guest", 4, nil), queue("stranger", 0, nil)
	owner.Spec.Parent, guest.Spec.Parent = "parent", "parent"
	for _, one := range []*v1.GPUQueue{parent, stranger} {
		one.Spec.Reclaim = &v1.GPUQueueReclaim{NoticeSeconds: ptr.To[int32](0)}
	}
	return []*v1.GPUQueue{parent, owner, guest, stranger}
}

// runs is comes for Pods that the API server has as well. Others turn out to be gone when they are to be stopped, and
// then no longer count as leaving.
func (f *fixture) runs(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, pod := range pods {
		if err := f.handle.client.Tracker().Add(pod); err != nil {
			f.t.Fatal(err)
		}
	}
	f.comes(pods...)
}

func TestBelowAFullParentSiblingsGiveBackWhatTheyHaveBorrowed(t *testing.T) {
	t.Parallel()
	guests := []*corev1.Pod{at(pod("a", 4, inQueue("guest")), "node-0", 0, 1, 2, 3), at(pod("b", 4, inQueue("guest")), "node-0", 4, 5, 6, 7)}
	large := at(pod("a", 8, inQueue("guest")), "node-0", 0, 1, 2, 3, 4, 5, 6, 7)
	tests := map[string]struct {
		running []*corev1.Pod
		waits   *corev1.Pod
		// victims are told to leave, and message is a part of what is said about it.
		victims, message string
	}{
		"although there are free GPUs": {guests, pod("waits", 4, inQueue("owner")), "a", "GPUs that other queues have borrowed are taken back from 1 Pod"},
		"and nobody of other parents": {
			[]*corev1.Pod{large, at(pod("other", 8, inQueue("stranger")), "node-1", 0, 1, 2, 3, 4, 5, 6, 7)},
			pod("waits", 4, inQueue("owner")), "a", "taken back from 1 Pod",
		},
		"on the GPUs that are needed": {
			append(guests, at(pod("other", 8, inQueue("stranger")), "node-1", 0, 1, 2, 3, 4, 5, 6, 7)),
			pod("waits", 4, inQueue("owner")), "a", "taken back from 1 Pod",
		},
		"but not beyond the guarantee":                     {guests, pod("waits", 5, inQueue("owner")), "", ""},
		"nor for a higher priority":                        {guests, pod("waits", 5, inQueue("owner"), prioritized(9)), "", ""},
		"nor for a task that takes nothing from others":    {guests, pod("waits", 4, inQueue("owner"), neverPreempting), "", "its preemption policy is Never"},
		"nor for the one who has borrowed":                 {guests, pod("waits", 1, inQueue("guest"), prioritized(9)), "", ""},
		"nor for what will never be allowed":               {guests, pod("waits", 9, inQueue("owner")), "", ""},
		"nor to preempt a lower priority in the own queue": {append(guests[:1:1], at(pod("own", 4, inQueue("owner")), "node-0", 4, 5, 6, 7)), pod("waits", 4, inQueue("owner"), prioritized(9)), "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.addNode("node-1", "a", 8)
			f.withQueues(family()...)
			f.runs(test.running...)
			f.comes(test.waits)
			if decision := f.decide(test.waits); decision.Node != "" || !strings.Contains(decision.Waits, "queue parent ") {
				t.Fatalf("decision is %+v", decision)
			}
			if got := f.Preempt(t.Context(), test.waits); !strings.Contains(got, test.message) || test.message == "" && got != "" {
				t.Errorf("the message is %q, want %q", got, test.message)
			}
			<-f.ended("waits")
			var told []string
			for _, one := range test.running {
				if f.registry.Terminating(one.UID) {
					told = append(told, one.Name)
				}
			}
			if got := strings.Join(told, " "); got != test.victims {
				t.Errorf("%q have to leave, want %q", got, test.victims)
			}
		})
	}
}

// The launcher of the gang holds no GPUs. The gang is stopped as a whole, wherever room is missing.
func TestAGangWithALauncherGivesBackAsAWhole(t *testing.T) {
	t.Parallel()
	owner, guest := queue("owner", 4, nil), queue("guest", 4, nil)
	tests := map[string]struct {
		queues []*v1.GPUQueue
		nodes  int
		waits  *corev1.Pod
	}{
		"under the limit of a parent": {family(), 2, pod("waits", 4, inQueue("owner"))},
		"on the nodes":                {[]*v1.GPUQueue{owner, guest}, 1, pod("waits", 4, inQueue("owner"))},
		"in its own queue":            {[]*v1.GPUQueue{owner, guest}, 1, pod("waits", 4, inQueue("guest"), prioritized(9))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for i := range test.nodes {
				f.addNode(fmt.Sprintf("node-%d", i), "a", 8)
			}
			f.withQueues(test.queues...)
			members := []*corev1.Pod{
				at(pod("launcher", 0, in("mpi", 3, 0), inQueue("guest")), "node-0"),
				at(pod("worker-0", 4, in("mpi", 3, 1), inQueue("guest")), "node-0", 0, 1, 2, 3),
				at(pod("worker-1", 4, in("mpi", 3, 2), inQueue("guest")), "node-0", 4, 5, 6, 7),
			}
			f.runs(members...)
			f.comes(test.waits)
			f.decide(test.waits)
			said := f.Preempt(t.Context(), test.waits)
			<-f.ended("waits")
			for _, one := range members {
				if !f.registry.Terminating(one.UID) {
					t.Errorf("%s stays; it is said: %q", one.Name, said)
				}
			}
		})
	}
}

func neverPreempting(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }

// What a sibling gives back under the parent's limit is for the gang that has asked for it, also if the sibling's next
// Pod comes first.
func TestNobodyElseTakesWhatIsGivenBackUnderALimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.addNode("node-1", "a", 8)
	f.withQueues(family()...)
	leaves, waits := at(pod("leaves", 8, inQueue("guest")), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), pod("waits", 4, inQueue("owner"))
	f.comes(leaves, waits)
	f.decide(waits)
	if got := f.Preempt(t.Context(), waits); !strings.Contains(got, "taken back from 1 Pod") {
		t.Fatalf("the message is %q", got)
	}
	early := pod("early", 1, inQueue("guest"))
	f.comes(early)
	if decision := f.decide(early); !strings.HasPrefix(decision.Waits, "queue parent holds 8 of at most 8 GPUs, and 1 are asked for") || strings.Contains(decision.Waits, "given back") {
		t.Errorf("it is said that the queue holds more than it does: %+v", decision)
	}
	f.goes(early)
	f.goes(leaves)
	small, next := pod("small", 4, inQueue("guest"), prioritized(9)), pod("next", 5, inQueue("guest"), prioritized(9))
	f.comes(next, small)
	if decision := f.decide(next); decision.Node != "" || !strings.Contains(decision.Waits, "queue parent holds 4 of at most 8 GPUs, and 5 are asked for; that counts GPUs that are being given back for others") {
		t.Errorf("the sibling's next Pod takes what was given back: %+v", decision)
	}
	if decision := f.decide(small); decision.Node == "" {
		t.Errorf("one that leaves enough has to wait: %+v", decision)
	}
	if decision := f.decide(waits); decision.Node == "" {
		t.Errorf("it gets no place: %+v", decision)
	}
}

// While one sibling is told to give back, another one asks as well: each gets its part, and the Pods that leave for the
// first one don't count for the second.
func TestTwoQueuesTakeBackBelowTheSameParent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.addNode("node-1", "a", 8)
	list := family()
	list[1].Spec.Resources[0].Guaranteed, list[2].Spec.Resources[0].Guaranteed = 2, 4
	second := queue("second", 2, nil)
	second.Spec.Parent = "parent"
	f.withQueues(append(list, second)...)
	running := []*corev1.Pod{
		at(pod("a", 2, inQueue("guest")), "node-0", 0, 1), at(pod("b", 2, inQueue("guest")), "node-0", 2, 3), at(pod("c", 4, inQueue("guest")), "node-0", 4, 5, 6, 7),
	}
	waiting := []*corev1.Pod{pod("one", 2, inQueue("owner")), pod("two", 2, inQueue("second"))}
	f.runs(running...)
	f.comes(waiting...)
	for i, one := range waiting {
		f.decide(one)
		if got := f.Preempt(t.Context(), one); !strings.Contains(got, "taken back from 1 Pod") {
			t.Errorf("for %s the message is %q", one.Name, got)
		}
		<-f.ended(one.Name)
		leaving := 0
		for _, p := range running {
			if f.registry.Terminating(p.UID) {
				leaving++
			}
		}
		if leaving != i+1 {
			t.Errorf("after %s, %d Pods leave, want %d", one.Name, leaving, i+1)
		}
	}
}
