// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// wanted is what tests look at of an Attempt.
type wanted struct {
	Waiting, Placed []string
	Need            int
	Extra           bool
}

func whatOf(a *Attempt) *wanted {
	if a == nil {
		return nil
	}
	w := &wanted{Waiting: []string{}, Placed: uidNames(a.Placed), Need: a.Need, Extra: a.Extra}
	for _, m := range a.Waiting {
		w.Waiting = append(w.Waiting, m.Pod().Name)
	}
	return w
}

func TestWhatThereIsToPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods []*corev1.Pod
		turn types.UID
		want *wanted
	}{
		"a Pod that is alone": {
			pods: []*corev1.Pod{pod("a")}, turn: "a", want: &wanted{Waiting: []string{"a"}, Placed: []string{}, Need: 1},
		},
		"a new gang: the minimum has to get a place": {
			pods: gangOf("train", 4, 3), turn: "train-0",
			want: &wanted{Waiting: []string{"train-0", "train-1", "train-2", "train-3"}, Placed: []string{}, Need: 3},
		},
		"the one whose turn it is comes first, then by index": {
			pods: gangOf("train", 4, 3), turn: "train-2",
			want: &wanted{Waiting: []string{"train-2", "train-0", "train-1", "train-3"}, Placed: []string{}, Need: 3},
		},
		"a running gang's members that come back have to reach the minimum": {
			pods: bindFirst(gangOf("train", 4, 4), 2), turn: "train-2",
			want: &wanted{Waiting: []string{"train-2", "train-3"}, Placed: []string{"train-0", "train-1"}, Need: 2},
		},
		"a running gang's member comes back alone: the others may have ended": {
			pods: bindFirst(gangOf("train", 2, 4), 1), turn: "train-1",
			want: &wanted{Waiting: []string{"train-1"}, Placed: []string{"train-0"}, Need: 1},
		},
		"a running gang's further members join one by one": {
			pods: bindFirst(gangOf("train", 5, 2), 2), turn: "train-2",
			want: &wanted{Waiting: []string{"train-2", "train-3", "train-4"}, Placed: []string{"train-0", "train-1"}, Need: 1, Extra: true},
		},
		"members that are about to go don't count": {
			pods: append(gangOf("train", 2, 2), ending(onNode(pod("old", in("train", 2, 0)), "a"))), turn: "train-0",
			want: &wanted{Waiting: []string{"train-0", "train-1"}, Placed: []string{}, Need: 2},
		},
		"too few": {pods: gangOf("train", 2, 3), turn: "train-0"},
		"too few, as the others are about to go": {
			pods: []*corev1.Pod{pod("train-0", in("train", 2, 0)), ending(onNode(pod("old", in("train", 2, 1)), "a"))}, turn: "train-0",
		},
		"a Pod that has a node": {pods: bindFirst(gangOf("train", 2, 2), 1), turn: "train-0"},
		"a Pod that is unknown": {pods: gangOf("train", 2, 2), turn: "other"},
		"a Pod that is to end":  {pods: []*corev1.Pod{ending(pod("a"))}, turn: "a"},
		"a Pod with foreign gates": {
			pods: []*corev1.Pod{pod("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue"}} })}, turn: "a",
		},
		"a gang of which some are gated by others: they are left out": {
			pods: []*corev1.Pod{pod("train-0", in("train", 1, 0), gated), pod("train-1", in("train", 1, 1))}, turn: "train-1",
			want: &wanted{Waiting: []string{"train-1"}, Placed: []string{}, Need: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pods...)
			if diff := cmp.Diff(test.want, whatOf(f.Attempt(test.turn))); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
}

// bindFirst returns Pods of which the first ones have a node.
func bindFirst(pods []*corev1.Pod, count int) []*corev1.Pod {
	pods = slices.Clone(pods)
	for i := range count {
		pods[i] = onNode(pods[i], "a")
	}
	return pods
}

// Pods that other controllers hold back with scheduling gates lead no gang, and when the
// gates are removed the gang proceeds.
func TestAGangWaitsForPodsThatAreHeldBackByOthers(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	gated(pods[0])
	f := newFixture(t, pods...)
	if f.gate(pods[1]) == "" {
		t.Error("a gang of which one is held back is queued")
	}
	free := pods[0].DeepCopy()
	free.Spec.SchedulingGates = nil
	want := nothing()
	want.Activate = []string{"train-0"}
	if got := inNames(f.Observe(free)); !cmp.Equal(want, got) {
		// Either member may lead.
		want.Activate = []string{"train-1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("actions when it is let go (-want +got):\n%s", diff)
		}
	}
}

func TestAnAttemptTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	greedy := pod("train-1", in("train", 2, 1), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["falldio.com/gpu-percent"] = p.Spec.Containers[0].Resources.Requests["falldio.com/gpu"]
	})
	tests := map[string]struct {
		pods []*corev1.Pod
		turn types.UID
		want string
	}{
		"labels that make no sense":     {[]*corev1.Pod{pod("a", in("train", -1, 0))}, "a", "label falldio.com/min-available"},
		"a member's request is invalid": {[]*corev1.Pod{pod("train-0", in("train", 2, 0)), greedy}, "train-0", "a Pod gets whole GPUs or a share of one"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempt := newFixture(t, test.pods...).Attempt(test.turn)
			if attempt == nil || attempt.Err == nil || !strings.Contains(attempt.Err.Error(), test.want) {
				t.Errorf("attempt %+v, want one with error %q", attempt, test.want)
			}
		})
	}
}

func TestAllAreQueuedOnceTheyHaveSeats(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 4, 3)
	f := newFixture(t, pods...)
	want := nothing()
	want.Activate = []string{"train-1", "train-2"}
	if diff := cmp.Diff(want, inNames(f.seat(pods[0], 3))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	for _, p := range pods[:3] {
		if why := f.gate(p); why != "" {
			t.Errorf("%s has a seat and is held back: %s", p.Name, why)
		}
	}
	if why := f.gate(pods[3]); !strings.Contains(why, "are being placed") {
		t.Errorf("the one without a seat is held back because %q", why)
	}
	if f.Attempt("train-3") != nil {
		t.Error("there are two plans for a gang")
	}
}

func TestNoSeatsAreGivenIfTheGangHasChanged(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture, []*corev1.Pod){
		"one is gone":              func(f *fixture, _ []*corev1.Pod) { f.Forget("train-1") },
		"one is to end":            func(f *fixture, pods []*corev1.Pod) { f.Observe(ending(pods[1])) },
		"one was bound by another": func(f *fixture, pods []*corev1.Pod) { f.Observe(onNode(pods[1], "a")) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := gangOf("train", 2, 2)
			f := newFixture(t, pods...)
			attempt := f.Attempt("train-0")
			change(f, pods)
			if number, _ := f.Seat(attempt.Group, attempt.Waiting, placesFor(2), "train-0", f.now()); number != 0 {
				t.Error("seats were given")
			}
			if seated := f.seated(); len(seated) > 0 {
				t.Errorf("these have seats: %v", seated)
			}
		})
	}
}

func TestTheBarrierOpensForAllAtOnce(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 4, 3)
	f := newFixture(t, pods...)
	f.seat(pods[0], 3)
	f.pass(pods[1])
	f.pass(pods[1]) // twice counts once
	f.pass(pods[0])
	arrival := f.barrier(pods[2])
	if !arrival.Open || arrival.Refused {
		t.Fatalf("the last one: %+v", arrival)
	}
	if diff := cmp.Diff([]string{"train-0", "train-1"}, uidNames(arrival.Allow)); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
	want := nothing()
	want.Activate = []string{"train-3"} // it joins later if there is room
	if diff := cmp.Diff(want, inNames(arrival.Actions)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// A binding cycle that ends late refers to the plan that it was for.
func TestWordsAboutAFormerPlanHaveNoEffect(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.seat(pods[0], 2)
	f.pass(pods[0])
	former, _ := f.SeatOf("train-0")
	f.withdraw(pods[1])
	f.seat(pods[0], 2)
	if w := f.Withdraw("train-0", former.Plan); w.Aborts > 0 || w.Fault != "" || !cmp.Equal(nothing(), inNames(w.Actions)) {
		t.Errorf("%+v", w)
	}
	if arrival := f.Barrier("train-0", former.Plan); arrival.Open || !arrival.Refused {
		t.Errorf("at the barrier with the former seat: %+v", arrival)
	}
	if diff := cmp.Diff([]string{"train-0", "train-1"}, f.seated()); diff != "" {
		t.Errorf("those with seats (-want +got):\n%s", diff)
	}
}

func TestThereIsNoBarrierForAPodAlone(t *testing.T) {
	t.Parallel()
	p := pod("a")
	f := newFixture(t, p)
	f.seat(p, 1)
	if arrival := f.barrier(p); !arrival.Open || arrival.Refused || len(arrival.Allow) > 0 {
		t.Errorf("%+v", arrival)
	}
}

func TestTheBarrierRefusesThoseWithoutASeat(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture, []*corev1.Pod){
		"it never had one":           func(*fixture, []*corev1.Pod) {},
		"its plan was given up":      func(f *fixture, pods []*corev1.Pod) { f.seat(pods[0], 2); f.Forget("train-1") },
		"it is gone":                 func(f *fixture, pods []*corev1.Pod) { f.seat(pods[0], 2); f.Forget("train-0") },
		"another one could not bind": func(f *fixture, pods []*corev1.Pod) { f.seat(pods[0], 2); f.withdraw(pods[1]) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := gangOf("train", 2, 2)
			f := newFixture(t, pods...)
			change(f, pods)
			if arrival := f.barrier(pods[0]); arrival.Open || !arrival.Refused || len(arrival.Allow) > 0 {
				t.Errorf("%+v", arrival)
			}
		})
	}
}

func TestAfterTheBarrierEachIsOnItsOwn(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 3, 3)
	f := newFixture(t, pods...)
	f.seat(pods[0], 3)
	f.pass(pods[0])
	f.pass(pods[1])
	f.barrier(pods[2])
	f.Observe(onNode(pods[0], "node-0"))
	want := done{Activate: []string{"train-1"}, Reject: []string{}, Release: []string{"train-1"}}
	if diff := cmp.Diff(want, inNames(f.withdraw(pods[1]))); diff != "" {
		t.Errorf("one could not be bound, actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"train-2"}, f.seated()); diff != "" {
		t.Errorf("those with seats (-want +got):\n%s", diff)
	}
	if why := f.gate(pods[1]); why != "" {
		t.Errorf("the remaining one is held back: %s", why)
	}
	if diff := cmp.Diff(&wanted{Waiting: []string{"train-1"}, Placed: []string{"train-0", "train-2"}, Need: 1}, whatOf(f.Attempt("train-1"))); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestANodeThatRefusesAMemberIsLeftOutNextTime(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	for i, node := range []string{"x", "y"} { // timing.MaxRefusals
		f.seat(pods[0], 2)
		f.pass(pods[0])
		again, actions := f.refuse(pods[1], node)
		if !again {
			t.Fatalf("after %d refusals there is no attempt", i+1)
		}
		if diff := cmp.Diff([]string{"train-0", "train-1"}, inNames(actions).Release); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
		if why := f.gate(pods[1]); why != "" {
			t.Errorf("the refused Pod does not lead: %s", why)
		}
	}
	attempt := f.Attempt("train-1")
	slices.Sort(attempt.Refused)
	if diff := cmp.Diff([]string{"x", "y"}, attempt.Refused); diff != "" {
		t.Errorf("nodes left out (-want +got):\n%s", diff)
	}
	f.seat(pods[1], 2)
	again, actions := f.refuse(pods[0], "z")
	if again {
		t.Error("more nodes are tried than may be")
	}
	if diff := cmp.Diff([]string{"train-0", "train-1"}, inNames(actions).Release); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	attempt = f.Attempt("train-0")
	f.Pause(attempt.Group, f.now(), f.now().Add(time.Second))
	if got := len(f.Attempt("train-0").Refused); got != 3 {
		t.Errorf("%d nodes are left out after a pause, want 3: there may be others", got)
	}
	f.Fail(attempt.Group, f.now(), f.now())
	if refused := f.Attempt("train-0").Refused; len(refused) > 0 {
		t.Errorf("nodes are left out although the others have no room: %v", refused)
	}
}

func TestSpareIsWhatRunsAboveTheMinimum(t *testing.T) {
	t.Parallel()
	f := newFixture(t, bindFirst(gangOf("train", 5, 2), 4)...)
	if got := f.Spare("default/train"); got != 2 {
		t.Errorf("spare are %d, want 2", got)
	}
	f.MarkTerminating([]types.UID{"train-0", "unknown"}, true)
	if got := f.Spare("default/train"); got != 1 {
		t.Errorf("with one that is about to go %d, want 1", got)
	}
	f.MarkTerminating([]types.UID{"train-0"}, false)
	if got := f.Spare("default/train"); got != 2 {
		t.Errorf("when it stays after all %d, want 2", got)
	}
	if got := f.Spare("default/other"); got != 0 {
		t.Errorf("of an unknown gang %d, want 0", got)
	}
}

func TestThoseThatComeForTerminatingOnesWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t, bindFirst(gangOf("train", 3, 2), 2)...)
	f.MarkTerminating([]types.UID{"train-0", "train-1"}, true)
	if f.Attempt("train-2") != nil {
		t.Error("it is placed alone, while its gang is about to go")
	}
	f.Observe(pod("new", in("train", 2, 0)))
	if diff := cmp.Diff(&wanted{Waiting: []string{"train-2", "new"}, Placed: []string{}, Need: 2}, whatOf(f.Attempt("train-2"))); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestAGangThatSucceedsForgetsItsFailures(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.fail(pods[0], time.Minute)
	f.step(2 * time.Minute)
	f.fail(pods[0], time.Minute)
	if waiting := f.Waiting(); len(waiting) != 1 || !waiting[0].Tried {
		t.Errorf("%+v wait, want one that was tried", waiting)
	}
	if f.Failing() != 1 {
		t.Errorf("%d fail, want 1", f.Failing())
	}
	f.seat(pods[0], 2)
	f.pass(pods[0])
	f.barrier(pods[1])
	if f.Failing() != 0 {
		t.Errorf("%d fail, want none", f.Failing())
	}
	f.withdraw(pods[0])
	if waiting := f.Waiting(); len(waiting) != 1 || waiting[0].Tried {
		t.Errorf("%+v wait, want one that was not tried since", waiting)
	}
}

func TestWhatAGangAwaitsIsWhatItsLastAttemptHasFound(t *testing.T) {
	t.Parallel()
	alone := pod("alone")
	tests := map[string]struct {
		last   func(f *fixture, g *Group)
		awaits Awaited
		never  bool
	}{
		"room":   {func(f *fixture, g *Group) { f.Fail(g, f.now(), f.now()) }, AwaitsRoom, false},
		"others": {func(f *fixture, g *Group) { f.FailForOther(g, f.now(), f.now()) }, AwaitsOther, false},
		"its queue": {func(f *fixture, g *Group) {
			f.FailAttempt(g, Failure{Began: f.now(), Ended: f.now(), Awaits: AwaitsQueue})
		}, AwaitsQueue, false},
		"nodes": {func(f *fixture, g *Group) {
			f.FailAttempt(g, Failure{Began: f.now(), Ended: f.now(), Awaits: AwaitsNodes, Never: true})
		}, AwaitsNodes, true},
		"nodes, and one has changed": {func(f *fixture, g *Group) {
			f.FailAttempt(g, Failure{Began: f.now(), Ended: f.now(), Awaits: AwaitsNodes, Never: true})
			f.WakeAll(f.now().Add(time.Second))
		}, AwaitsNodes, false},
		"nodes, and a Pod has gone": {func(f *fixture, g *Group) {
			f.FailAttempt(g, Failure{Began: f.now(), Ended: f.now(), Awaits: AwaitsNodes, Never: true})
			f.Wake(f.now().Add(time.Second))
		}, AwaitsNodes, true},
		"nodes, and it has changed": {func(f *fixture, g *Group) {
			f.FailAttempt(g, Failure{Began: f.now(), Ended: f.now(), Awaits: AwaitsNodes, Never: true})
			changed := alone.DeepCopy()
			changed.Labels = map[string]string{"changed": "yes"}
			f.Observe(changed)
		}, AwaitsNodes, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, alone)
			f.FailForOther(f.Attempt("alone").Group, f.now(), f.now()) // what was found before does not count
			test.last(f, f.Attempt("alone").Group)
			if got := f.Waiting()[0]; got.Awaits != test.awaits || got.Never != test.never || !got.Tried {
				t.Errorf("got %+v, want %d, never %t", got, test.awaits, test.never)
			}
		})
	}
}

func TestGangOfAndWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, pod("train-0", in("train", 1, 0)), pod("alone"))
	if got := f.GangOf("train-0"); got != "default/train" {
		t.Errorf("gang %q", got)
	}
	if got := f.GangOf("alone"); got != "" {
		t.Errorf("gang %q of a Pod that is alone", got)
	}
	for group, want := range map[string]bool{"default/train": true, "alone": true, "default/other": false} {
		if got := f.Waits(group); got != want {
			t.Errorf("Waits(%s) is %t, want %t", group, got, want)
		}
	}
	f.Observe(onNode(pod("train-0", in("train", 1, 0)), "a"))
	if f.Waits("default/train") {
		t.Error("a gang waits all of which have a node")
	}
}

// A scheduling cycle that ends with an error leaves the Pod its seat: it has neither been
// refused nor come to the barrier. Its next cycle finds out.
func TestASecondCycleWithASeatFollowsAnError(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.seat(pods[0], 2)
	seat, _ := f.SeatOf(pods[0].UID)
	if f.Tried(pods[0].UID, seat.Plan) {
		t.Error("the first cycle is taken for the second one")
	}
	f.MarkTried(pods[0].UID, seat.Plan)
	if !f.Tried(pods[0].UID, seat.Plan) {
		t.Error("the second cycle is taken for the first one")
	}
	if f.Tried(pods[0].UID, seat.Plan+1) {
		t.Error("a cycle of another plan counts")
	}
	f.pass(pods[0])
	if f.Tried(pods[0].UID, seat.Plan) {
		t.Error("a Pod at the barrier is taken for one that an error stopped")
	}
}

func TestPlansThatAreNotCompletedInTimeAreOverdue(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.seat(pods[0], 2)
	made := f.now()
	if overdue := f.Overdue(made); len(overdue) > 0 {
		t.Errorf("overdue at once: %v", overdue)
	}
	seat, _ := f.SeatOf(pods[0].UID)
	want := map[types.UID]uint64{pods[0].UID: seat.Plan}
	if diff := cmp.Diff(want, f.Overdue(made.Add(time.Second))); diff != "" {
		t.Errorf("overdue (-want +got):\n%s", diff)
	}
	f.pass(pods[0])
	if !f.barrier(pods[1]).Open {
		t.Fatal("the barrier does not open")
	}
	if overdue := f.Overdue(made.Add(time.Hour)); len(overdue) > 0 {
		t.Errorf("overdue although its barrier has opened: %v", overdue)
	}
}
