// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// free is how many whole GPUs are free.
func (f *fixture) free() int {
	f.mirror.Refresh(f.nodes())
	count := 0
	f.mirror.With(func(cluster *placement.Cluster) {
		count = cluster.Root().Room(cluster.Request(placement.Shape{GPUs: 1}))
	})
	return count
}

func TestAGangIsPlannedOnceAndBoundTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 2)
	pods := gang("train", 4, 3)
	f.comes(pods[:3]...)
	f.handle.takeActivated()
	leader := f.decide(pods[0])
	if leader.Node == "" {
		t.Fatalf("the leader has no seat: %+v", leader)
	}
	if diff := cmp.Diff([]string{"train-1", "train-2"}, f.handle.takeActivated()); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
	if got := f.free(); got != 1 {
		t.Errorf("%d GPUs are free while the gang gathers, want 1", got)
	}
	for i, p := range pods[:3] {
		decision := f.decide(p)
		wait, err := f.reserve(p, decision)
		if err != nil || wait != (i < 2) {
			t.Fatalf("%s at the barrier: waits %t, error %v", p.Name, wait, err)
		}
	}
	for uid, one := range f.handle.waiting {
		if allowed, rejected := one.state(); !allowed || rejected {
			t.Errorf("Pod %s: allowed %t, rejected %t", uid, allowed, rejected)
		}
	}
	if got := f.free(); got != 1 {
		t.Errorf("%d GPUs are free, want 1", got)
	}
	f.comes(pods[3])
	if extra := f.decide(pods[3]); extra.Node == "" {
		t.Errorf("one above the minimum does not join: %+v", extra)
	}
}

func TestAGangThatDoesNotFitHoldsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	pods := gang("train", 3, 3)
	f.comes(pods...)
	decision := f.decide(pods[0])
	if decision.Node != "" || !strings.Contains(decision.Waits, "needs at once 3 × 1 GPU") {
		t.Errorf("decision %+v", decision)
	}
	if got := f.free(); got != 2 {
		t.Errorf("%d GPUs are free, want 2", got)
	}
	if why := f.Gate(pods[0]); why == "" {
		t.Error("it is queued again at once")
	}
}

func TestAGangThatMakesNoSenseIsToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	p := pod("train-0", 1, in("train", 1, 0), inOneLeaf)
	p.Annotations["falldio.com/topology-level"] = "row"
	f.comes(p)
	if decision := f.decide(p); !strings.Contains(decision.Wrong, `there is no topology level "row"`) {
		t.Errorf("decision %+v", decision)
	}
}

// Each single Pod of a quiet cluster is one that no snapshot shows.
func TestThePlaceOfAPodIsFreeThatIsGoneBeforeTheNextOneComes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	short := pod("short", 1)
	f.comes(short)
	decision := f.decide(short)
	if _, err := f.reserve(short, decision); err != nil {
		t.Fatal(err)
	}
	f.podUpdated(short, at(short, "a", 0))
	f.goes(at(short, "a", 0))
	next := pod("next", 1)
	f.comes(next)
	if decision := f.decide(next); decision.Node != "a" {
		t.Errorf("the next Pod: %+v", decision)
	}
}

func TestTheBarrierStaysClosedIfAWaitingPodWasLost(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, first *corev1.Pod){
		"it waited for too long": func(f *fixture, first *corev1.Pod) { delete(f.handle.waiting, first.UID) },
		"its node was closed": func(f *fixture, first *corev1.Pod) {
			seat, _ := f.registry.SeatOf(first.UID)
			node := f.infos[seat.Node].Node().DeepCopy()
			node.Spec.Unschedulable = true
			f.infos[seat.Node].SetNode(node)
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 1)
			f.addNode("b", "l", 1)
			pods := gang("train", 2, 2)
			f.comes(pods...)
			for i, p := range pods {
				decision := f.decide(p)
				if i == 1 {
					lose(f, pods[0])
					f.mirror.Refresh(f.nodes())
				}
				if wait, err := f.reserve(p, decision); wait != (i == 0) || (err == nil) != (i == 0) {
					t.Errorf("%s at the barrier: waits %t, error %v", p.Name, wait, err)
				}
			}
			for _, p := range pods {
				if seat, seated := f.registry.SeatOf(p.UID); seated {
					t.Errorf("%s has a seat on node %s still", p.Name, seat.Node)
				}
			}
			if one := f.handle.waiting[pods[0].UID]; one != nil {
				if allowed, rejected := one.state(); allowed || !rejected {
					t.Errorf("the first one: allowed %t, rejected %t", allowed, rejected)
				}
			}
		})
	}
}

func TestALateUnreserveDoesNotTouchTheNextPlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	pods := gang("train", 2, 2)
	f.comes(pods...)
	former := f.decide(pods[0])
	if _, err := f.reserve(pods[0], former); err != nil {
		t.Fatal(err)
	}
	f.Refuse(t.Context(), pods[1].UID, former.Plan, "b")
	f.Withdraw(pods[0].UID, former.Plan)
	if err := f.infos[former.Node].RemovePod(f.logger, at(pods[0], former.Node)); err != nil {
		t.Fatal(err)
	}
	f.addNode("c", "l", 1)
	f.clock.Step(time.Minute)
	if next := f.decide(pods[1]); next.Node == "" || next.Plan == former.Plan {
		t.Fatalf("there is no other plan: %+v", next)
	}
	f.Withdraw(pods[0].UID, former.Plan)
	for _, p := range pods {
		if _, seated := f.registry.SeatOf(p.UID); !seated {
			t.Errorf("%s has lost its seat", p.Name)
		}
	}
}

func TestNodesThatRefuseAreTriedOnlySoOften(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.args.MaxRefusals = 5
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		f.addNode(name, "l", 1)
	}
	p := pod("picky", 1)
	f.comes(p)
	seen := map[string]bool{}
	for range 6 {
		decision := f.decide(p)
		if decision.Node == "" || seen[decision.Node] {
			t.Fatalf("after nodes %v: %+v", seen, decision)
		}
		seen[decision.Node] = true
		f.Refuse(t.Context(), p.UID, decision.Plan, decision.Node)
	}
	if why := f.Gate(p); why == "" {
		t.Error("after six refusals it is queued at once")
	}
	f.clock.Step(longestPause)
	if why := f.Gate(p); why != "" {
		t.Errorf("after a pause it is held back: %s", why)
	}
}

func TestMembersThatComeBackGoToTheirGangsLeaf(t *testing.T) {
	t.Parallel()
	for name, required := range map[string]bool{"required": true, "preferred": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "near", 2)
			f.addNode("b", "far", 1) // it would be filled better
			options := []func(*corev1.Pod){inOneLeaf}
			if !required {
				options = append(options, func(p *corev1.Pod) { delete(p.Annotations, "falldio.com/topology-mode") })
			}
			pods := gang("train", 3, 3, options...)
			f.comes(at(pods[0], "a", 0), pods[1])
			if decision := f.decide(pods[1]); decision.Node != "a" {
				t.Errorf("it goes elsewhere: %+v", decision)
			}
			f.comes(pods[2])
			f.clock.Step(time.Hour)
			// The leaf is full: only a gang that just prefers it goes elsewhere.
			if _, err := f.reserve(pods[1], f.decide(pods[1])); err != nil {
				t.Fatal(err)
			}
			if decision := f.decide(pods[2]); (decision.Node == "b") == required {
				t.Errorf("when the leaf is full: %+v", decision)
			}
		})
	}
}

func TestAProfileMayChooseTheNodeItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 2)
	p := pod("alone", 1)
	f.comes(p)
	decision := f.Decide(p, f.nodes(), true)
	if len(decision.Order) != 2 || decision.Node != "" {
		t.Fatalf("decision %+v", decision)
	}
	plan, err := f.Reserve(p, "b")
	if err != nil || plan == 0 {
		t.Fatalf("plan %d, error %v", plan, err)
	}
	if _, err := f.Reserve(p, "a"); err == nil {
		t.Error("it has two seats")
	}
	if wait, err := f.Barrier(p.UID, plan); wait || err != nil {
		t.Errorf("it waits %t, error %v", wait, err)
	}
	big := pod("big", 2)
	f.comes(big)
	if decision := f.Decide(big, f.nodes(), true); len(decision.Order) > 0 || decision.Waits == "" {
		t.Errorf("a Pod that fits nowhere: %+v", decision)
	}
}

func TestRolesGroupMembersByWhatTheyNeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 8)
	f.comes(pod("m-0", 2, in("m", 3, 0)), pod("m-1", 1, in("m", 3, 1)), pod("m-2", 1, in("m", 3, 2)), pod("m-3", 1, in("m", 3, 3)), pod("m-4", 2, in("m", 3, 4)))
	attempt := f.registry.Attempt("m-0")
	r := newFixture(t).finder.requestFor(attempt.Waiting, attempt.Need)
	var got [][3]int
	for i := range r.Roles {
		got = append(got, [3]int{r.Roles[i].Shape.GPUs, r.Roles[i].Min, r.Roles[i].Max})
	}
	if diff := cmp.Diff([][3]int{{2, 1, 2}, {1, 2, 3}}, got); diff != "" {
		t.Errorf("GPUs, minimum and maximum of the roles (-want +got):\n%s", diff)
	}
	plan := &placement.Plan{Members: []placement.Member{{Role: 1}, {Role: 0}, {Role: 1}}}
	for i := range plan.Members {
		plan.Members[i].Node = string(rune('x' + i))
	}
	members, places := r.Assign(plan)
	var names []string
	for i, m := range members {
		names = append(names, string(m.UID)+" on "+places[i].Node)
	}
	if diff := cmp.Diff([]string{"m-1 on x", "m-0 on y", "m-2 on z"}, names); diff != "" {
		t.Errorf("nodes by member (-want +got):\n%s", diff)
	}
}

func TestExplanationsAreRememberedForAWhile(t *testing.T) {
	t.Parallel()
	e := newExplanationCache(10 * time.Second)
	e.put("q", cachedMessage{text: "first", at: beginning})
	if got, good := e.get("q", beginning.Add(9*time.Second)); !good || got.text != "first" {
		t.Errorf("soon: %+v, good %t", got, good)
	}
	if _, good := e.get("q", beginning.Add(10*time.Second)); good {
		t.Error("an old message is not stale")
	}
	if _, good := e.get("other", beginning); good {
		t.Error("there is a message for an unknown key")
	}
	for i := range 10 * minSweepSize {
		now := beginning.Add(time.Duration(i) * time.Second)
		e.put(now.String(), cachedMessage{at: now})
	}
	if len(e.entries) > 2*minSweepSize {
		t.Errorf("%d messages are kept", len(e.entries))
	}
}

func TestAGangIsToldTheSameForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	pods := gang("train", 3, 3)
	f.comes(pods...)
	first := f.decide(pods[0]).Waits
	f.comes(at(pod("other", 1), "a", 0))
	f.clock.Step(time.Second)
	if second := f.decide(pods[0]).Waits; second != first {
		t.Errorf("after a second the message differs:\n%s\n%s", first, second)
	}
	f.clock.Step(time.Minute)
	if third := f.decide(pods[0]).Waits; third == first {
		t.Errorf("after a minute the message is the same, though less is free: %s", third)
	}
}

func TestNodesAreKeptFromThoseWhoComeLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 2)
	old, young, urgent := pod("old", 1), pod("young", 1), pod("urgent", 1, prioritized(5))
	young.CreationTimestamp.Time = beginning.Add(time.Minute)
	urgent.CreationTimestamp.Time = beginning.Add(time.Hour)
	f.comes(old, young, urgent)
	attempt := f.registry.Attempt("old")
	f.kept.set(attempt, keeping(beginning.Add(time.Minute), "b", "a"))
	if diff := cmp.Diff([]string{"a", "b"}, f.keptForOthers(f.registry.Attempt("young"))); diff != "" {
		t.Errorf("kept from a younger one (-want +got):\n%s", diff)
	}
	for _, uid := range []string{"old", "urgent"} {
		if got := f.keptForOthers(f.registry.Attempt(pod(uid, 1).UID)); len(got) > 0 {
			t.Errorf("kept from %s: %v", uid, got)
		}
	}
	if f.kept.sweep(beginning.Add(time.Minute), time.Hour, f.registry.Waits) {
		t.Error("it ends early")
	}
	if !f.kept.sweep(beginning.Add(time.Minute+1), time.Hour, f.registry.Waits) {
		t.Error("it does not end")
	}
	if !f.kept.pauses("old", beginning.Add(2*time.Minute)) || f.kept.pauses("old", beginning.Add(2*time.Hour)) {
		t.Error("a gang whose nodes were kept for too long may have some kept again at once, or never")
	}
	f.kept.set(attempt, keeping(beginning.Add(3*time.Hour), "a"))
	if count := f.kept.count(); count != 1 {
		t.Errorf("%d nodes are kept", count)
	}
	if !f.kept.sweep(beginning, time.Hour, func(string) bool { return false }) || f.kept.drop("old") {
		t.Error("nodes are kept for one that is gone")
	}
	f.kept.sweep(beginning.Add(24*time.Hour), time.Hour, f.registry.Waits)
	if len(f.kept.cooldownUntil)+len(f.kept.list) > 0 {
		t.Errorf("left are %v, %v", f.kept.cooldownUntil, f.kept.list)
	}
}

func TestThoseTurnedAwayAreQueuedWhenSeatsAreGivenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	pods := gang("train", 2, 2)
	f.comes(pods...)
	decision := f.decide(pods[0])
	if !f.holdsRoom() {
		t.Fatal("a seat withholds nothing")
	}
	web := pod("web", 0)
	f.RequeueLater(web)
	f.handle.takeActivated()
	f.Withdraw(pods[0].UID, decision.Plan)
	if got := f.handle.takeActivated(); !slices.Contains(got, "web") {
		t.Errorf("activated are %v, want web too", got)
	}
	if f.holdsRoom() {
		t.Error("a seat that was given back is withheld")
	}
}

// The mirror is only refreshed on demand: a seat must not outlive that.
func TestNothingIsKeptForAPodThatWasAssumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	p := pod("alone", 1)
	f.comes(p)
	if _, err := f.reserve(p, f.decide(p)); err != nil {
		t.Fatal(err)
	}
	if f.holdsRoom() {
		t.Errorf("what the Pod has counts twice: %+v", f.keptOn("a", pod("web", 0)))
	}
}
