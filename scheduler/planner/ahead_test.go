// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// A gang that has just been refused gets its booking at once, although nothing has changed on the nodes since the
// bookings were revised: else others could take the nodes that it needs.
func TestAGangThatHasJustComeGetsABookingOnAQuietCluster(t *testing.T) {
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

// leastImportant is a Pod that comes after all gangs.
var leastImportant = gangs.Rank{Priority: math.MinInt32}

// waitInLine has Pods tried in vain, and then places booked for those that may have some.
func (f *fixture) waitInLine(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, one := range pods {
		if decision := f.decide(one); decision.Node != "" {
			f.t.Fatalf("%s fits: %+v", one.Name, decision)
		}
	}
	f.lookAhead()
}

// lookAhead has the bookings revised, as they are after a short time.
func (f *fixture) lookAhead() {
	f.line.Order()
	f.clock.Step(2 * time.Second)
	f.refresh(f.nodes())
	f.line.LookAhead()
}

// wantBooked compares the nodes that are booked for each gang, by gang: "big: a b".
func (f *fixture) wantBooked(when string, want ...string) {
	f.t.Helper()
	var got []string
	for _, one := range f.line.Bookings() {
		got = append(got, one.Key+": "+strings.Join(slices.Sorted(maps.Keys(mirror.RoomOf(one.Plan))), " "))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s, bookings (-want +got):\n%s", when, diff)
	}
}

func TestAGangThatWaitsGetsItsNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	runs := at(pod("runs", 1), "a", 0)
	f.comes(runs)
	big := pod("big", 2)
	f.comes(big)
	small := func(name string) Decision {
		p := pod(name, 1, later(1))
		f.comes(p)
		decision := f.decide(p)
		f.goes(p)
		return decision
	}
	if decision := small("early"); decision.Node != "a" {
		t.Errorf("before any gang waits a small one does not fit: %+v", decision)
	}
	f.waitInLine(big)
	if decision := small("late"); decision.Node != "" {
		t.Errorf("a small one takes the place of one that waits: %+v", decision)
	}
	f.goes(runs)
	if decision := f.decide(big); decision.Node != "a" {
		t.Errorf("the one that waited does not fit: %+v", decision)
	}
	f.wantBooked("when it has its place")
}

func TestGangsThatWaitHaveDifferentNodesBookedAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 4)
	f.comes(at(pod("x", 1), "a", 0), at(pod("y", 1), "b", 0))
	four, two := pod("four", 4), pod("two", 2, later(1))
	blocker := at(pod("z", 3), "b", 1, 2, 3)
	f.comes(four, two, blocker)
	f.waitInLine(four, two)
	f.wantBooked("when both wait", "four: b", "two: a")
}

func TestAGangThatComesFirstGoesBeforeABooking(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	x := at(pod("x", 1, prioritized(9)), "a", 0)
	f.comes(x)
	usual := pod("usual", 2)
	f.comes(usual)
	f.waitInLine(usual)
	f.wantBooked("at first", "usual: a")
	urgent := pod("urgent", 2, prioritized(5), later(1))
	f.comes(urgent)
	f.waitInLine(urgent)
	first, _ := f.line.Booking("urgent")
	second, _ := f.line.Booking("usual")
	if first.Plan == nil || second.Plan != nil && !first.From.Before(second.From) {
		t.Errorf("the more important one starts at %v, the other one at %v", first.From, second.From)
	}
	f.goes(x)
	if decision := f.decide(usual); decision.Node != "" {
		t.Errorf("the usual one goes first: %+v", decision)
	}
	if decision := f.decide(urgent); decision.Node != "a" {
		t.Errorf("the more important one does not fit: %+v", decision)
	}
}

// The bookings of others must not put off a gang of a higher priority that has just come, also not until it is in the
// line.
func TestAGangOfAHigherPriorityStartsWhereOthersWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.comes(at(pod("x", 1), "a", 0))
	usual := pod("usual", 2)
	f.comes(usual)
	f.waitInLine(usual)
	equal, urgent := pod("equal", 1, later(1)), pod("urgent", 1, prioritized(5), later(1))
	f.comes(equal, urgent)
	if decision := f.decide(equal); decision.Node != "" {
		t.Errorf("one of the same priority goes first: %+v", decision)
	}
	if decision := f.decide(urgent); decision.Node != "a" {
		t.Errorf("the urgent one does not fit: %+v", decision)
	}
}

func TestANamespaceLeavesBookingsToOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var pods []*corev1.Pod
	for i := range f.args.Reservations + 2 {
		f.addNode(fmt.Sprintf("n%d", i), "l", 2)
		f.comes(at(pod(fmt.Sprintf("x%d", i), 1), fmt.Sprintf("n%d", i), 0))
		pods = append(pods, pod(fmt.Sprintf("p%d", i), 2, later(i)))
	}
	other := pod("other", 2, later(100), inNamespace("other"))
	f.comes(append(pods, other)...)
	f.waitInLine(append(pods, other)...)
	if _, booked := f.line.Booking("other"); len(f.line.Bookings()) != f.args.Reservations || !booked {
		t.Errorf("bookings are %+v, want one of another namespace", f.line.Bookings())
	}
}

func TestABookingMovesToNodesThatAreFreeEarlier(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := map[string]*corev1.Pod{}
	for i, node := range []string{"a", "b"} {
		f.addNode(node, "l", 4)
		for card := range 4 {
			name := fmt.Sprintf("%s-%d", node, card)
			users[name] = at(pod(name, 1, since(beginning.Add(time.Duration(i)*time.Minute))), node, card)
			f.comes(users[name])
		}
	}
	f.goes(users["a-0"])
	big := pod("big", 4)
	f.comes(big)
	f.waitInLine(big)
	f.wantBooked("at first", "big: a")
	for _, name := range []string{"b-0", "b-1", "b-2"} {
		f.goes(users[name])
	}
	f.lookAhead()
	f.wantBooked("as long as others are only as good", "big: a")
	f.goes(users["b-3"])
	f.lookAhead()
	f.wantBooked("when all of b is free", "big: b")
}

func TestNodesToBookAreNotLookedForAllTheTimeIfThereAreNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	user := at(pod("x", 1, cpus("40")), "a", 0)
	idle := at(pod("y", 0, cpus("20")), "a")
	big := pod("big", 2, cpus("50"))
	f.comes(user, idle, big)
	f.waitInLine(big)
	f.wantBooked("while a Pod without GPUs has the CPUs")
	f.goes(idle)
	f.lookAhead()
	f.wantBooked("at once")
	f.clock.Step(time.Minute)
	f.lookAhead()
	f.wantBooked("after a while", "big: a")
}

// A Pod that never ends must not keep nodes from others for ever, for a gang that waits for it.
func TestNodesAreBookedAsLongAsPodsLeaveThemOrSayWhenTheyEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goes   bool
		before int // jobs that have run for a second
		pod    []func(*corev1.Pod)
		want   bool
	}{
		"nobody knows when they end":        {want: false},
		"they have outlived all others":     {before: 10, want: false},
		"nobody knows, but some have left":  {goes: true, want: true},
		"they say when":                     {pod: []func(*corev1.Pod){runsFor(1000 * time.Hour)}, want: true},
		"they say when, and some have left": {goes: true, pod: []func(*corev1.Pod){runsFor(1000 * time.Hour)}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for i := range test.before {
				f.podDeleted(at(pod(fmt.Sprint("job-", i), 1, since(beginning.Add(-time.Second))), "elsewhere"))
			}
			f.addNode("a", "l", 4)
			var users []*corev1.Pod
			for card := range 4 {
				users = append(users, at(pod(fmt.Sprintf("x%d", card), 1, append(test.pod, since(beginning))...), "a", card))
			}
			f.comes(users...)
			big := pod("big", 4)
			f.comes(big)
			f.waitInLine(big)
			patience := time.Duration(f.args.ClaimSeconds) * time.Second
			for _, user := range users[:3] {
				f.clock.Step(patience - time.Minute)
				if test.goes {
					f.goes(user)
				}
				f.lookAhead()
			}
			if _, booked := f.line.Booking("big"); booked != test.want {
				t.Fatalf("there is a booking: %t, want %t", booked, test.want)
			}
			if test.pod != nil {
				return
			}
			if test.want {
				f.clock.Step(patience)
				f.lookAhead()
			}
			small := pod("small", 1, later(1))
			f.wantBooked("when nobody leaves any more")
			if f.comes(small); test.goes && f.decide(small).Node == "" {
				t.Error("others don't get what is free")
			}
			f.goes(small)
			f.clock.Step(patience)
			f.lookAhead()
			f.wantBooked("after some time", "big: a")
		})
	}
}

// The Pods that hold the GPUs hold the CPUs that the gang needs, too.
func TestAGangThatNeedsTheCPUsOfThoseWhoLeaveGetsTheirNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := map[string][]*corev1.Pod{}
	for _, name := range []string{"a", "b"} {
		f.addNode(name, "l", 8)
		node := f.infos[name].Node()
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("128")
		f.infos[name].SetNode(node)
		for card := range 3 {
			users[name] = append(users[name], at(pod(fmt.Sprintf("%s-%d", name, card), 1, cpus("12")), name, card))
		}
		f.comes(users[name]...)
	}
	big := pod("big-0", 8, cpus("96"), in("big", 1, 0))
	f.comes(big)
	f.waitInLine(big)
	booking, booked := f.line.Booking("default/big")
	if !booked {
		t.Fatal("nothing is booked")
	}
	node := booking.Plan.Members[0].Node
	late := pod("late", 1, later(10))
	f.comes(late)
	if decision := f.decide(late); decision.Node == "" || decision.Node == node {
		t.Errorf("a late small one goes to %q, want the node that is not %s", decision.Node, node)
	}
	for _, user := range users[node] {
		f.goes(user)
	}
	if decision := f.decide(big); decision.Node != node {
		t.Errorf("when the others have left: %+v, want node %s", decision, node)
	}
}

// Those above the minimum join their gang if there is room, and keep nobody else from it.
func TestNothingIsBookedForPodsAboveTheMinimum(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	pods := gang("elastic", 3, 1)
	f.comes(at(pods[0], "a", 0), at(pod("runs", 3), "a", 1, 2, 3), pods[1], pods[2])
	f.waitInLine(pods[1])
	f.wantBooked("while the minimum runs")
}

// Node n0 would be free earlier, but the volume is in the zone of n1.
func TestBookingsAreOfNodesThatTheFiltersAccept(t *testing.T) {
	nodes, running := make([]*corev1.Node, 2), []*corev1.Pod(nil)
	for i, zone := range []string{"x", "y"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{zoneLabel: zone}}}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("10"), v1.ResourceGPU: resource.MustParse("2"),
		}
		nodes[i] = node
		for card := range i + 1 {
			running = append(running, at(pod(fmt.Sprintf("r%d%d", i, card), 1, since(beginning.Add(time.Duration(i)*time.Hour))), node.Name))
		}
	}
	volume, bound := volumeIn("y")
	f := newFramed(t, nodes, running, volume, bound)
	big := pod("big", 2)
	big.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "y"},
	}}}
	f.comes(big)
	f.waitInLine(big)
	f.wantBooked("when it waits", "big: n1")
}

// TestNothingIsBookedBehindAGPUOfAResourceClaim: on node a fewer GPUs are in use, but nobody knows
// whether the one of a resource claim will ever be free.
func TestNothingIsBookedBehindAGPUOfAResourceClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "l", 4)
	for card := range 4 {
		f.comes(at(pod(fmt.Sprint("p", card), 1), "b", card))
	}
	f.mirror.SetDevices(map[string][]string{"a": {"a-0"}}, nil)
	big := pod("big", 4)
	f.comes(big)
	f.waitInLine(big)
	f.wantBooked("when it waits", "big: b")
}

// A gang whose booking has been given up is not without protection: those that it preempts leave for it.
func TestAPreemptionKeepsItsNodesAlthoughABookingWasGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	equal := at(pod("equal", 4, prioritized(5)), "a", 0, 1, 2, 3)
	big := pod("big", 4, prioritized(5))
	f.comes(equal, big)
	f.waitInLine(big)
	f.wantBooked("when it waits", "big: a")
	f.clock.Step(time.Duration(f.args.ClaimSeconds)*time.Second + time.Second)
	f.lookAhead()
	f.wantBooked("when nobody has left")
	f.goes(equal)
	low := []*corev1.Pod{at(pod("low-0", 2, prioritized(1)), "a", 0, 1), at(pod("low-1", 2, prioritized(1)), "a", 2, 3)}
	f.comes(low...)
	f.decide(big)
	if got := f.Preempt(t.Context(), big); got != "2 Pods of a lower priority are preempted" {
		t.Fatalf("the message is %q", got)
	}
	f.wantKept("when others are preempted", "big: a")
	f.goes(low[0])
	small := pod("small", 1, prioritized(1), later(30))
	f.comes(small)
	if decision := f.decide(small); decision.Node != "" {
		t.Errorf("what was vacated for the gang goes to a Pod of a lower priority: %+v", decision)
	}
}

// A gang is deleted and created again under its name before anything else happens.
func TestAGangDoesNotInheritTheBookingOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.comes(at(pod("runs", 2), "a", 0, 1))
	earlier := gang("big", 4, 4, prioritized(5))
	f.comes(earlier...)
	f.waitInLine(earlier[0])
	f.wantBooked("when it waits", "default/big: a")
	for _, one := range earlier {
		f.goes(one)
	}
	later := gang("big", 4, 4, func(p *corev1.Pod) { p.UID = types.UID("later-" + p.Name) })
	f.comes(later...)
	f.wantBooked("when it was created again")
}
