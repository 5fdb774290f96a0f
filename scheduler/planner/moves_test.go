// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// keep writes a node's reservations, as the rescheduler does.
func (f *fixture) keep(node string, list ...reservation.Reservation) {
	f.t.Helper()
	text, err := reservation.Format(list)
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(node, func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, reservation.Annotation, text) })
}

// change changes a node, for the cache and the informer.
func (f *fixture) change(node string, how func(*corev1.Node)) {
	before := f.infos[node].Node()
	after := before.DeepCopy()
	how(after)
	f.infos[node].SetNode(after)
	f.nodeThere(before, after)
}

// moved keeps cards for a Pod that is moved.
func moved(pod string, uuids ...string) reservation.Reservation {
	return reservation.Reservation{
		Plan: "plan", Pod: "default/" + pod, Kind: reservation.Move, GPUs: uuids, CPU: 1000, Until: beginning.Add(10 * time.Minute),
	}
}

// toStart keeps cards for a Pod that others are moved for.
func toStart(pod string, uuids ...string) reservation.Reservation {
	r := moved(pod, uuids...)
	r.Kind = reservation.Start
	return r
}

func important(priority int32, r reservation.Reservation) reservation.Reservation {
	r.Priority = priority
	return r
}

// cardsOf are those of a Pod's seat.
func (f *fixture) cardsOf(p *corev1.Pod) []int {
	seat, seated := f.registry.SeatOf(p.UID)
	if !seated {
		return nil
	}
	return seat.GPUs
}

// step lets time pass and does what is due.
func (f *fixture) step(time time.Duration) {
	f.clock.Step(time)
	f.care(f.t.Context())
}

// due returns who is to be tried again after a while.
func (f *fixture) due(after time.Duration) []string {
	f.step(after)
	var names []string
	for _, p := range f.registry.Due(f.clock.Now(), mostAtOnce) {
		names = append(names, p.Name)
	}
	return names
}

func TestWhoGetsAReservedPlace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kept  []reservation.Reservation // on node a, of two cards
		comes *corev1.Pod
		node  string
		cards []int
	}{
		"the Pod that is moved there":                   {[]reservation.Reservation{moved("p", "a-1")}, pod("p", 1), "a", []int{1}},
		"the Pod that is to start there":                {[]reservation.Reservation{toStart("p", "a-0", "a-1")}, pod("p", 2), "a", []int{0, 1}},
		"another Pod gets what is beside it":            {[]reservation.Reservation{moved("x", "a-0")}, pod("p", 1), "a", []int{1}},
		"another Pod that needs it too gets nothing":    {[]reservation.Reservation{moved("x", "a-0")}, pod("p", 2), "", nil},
		"one of a lower priority does not":              {[]reservation.Reservation{important(2, moved("x", "a-0"))}, pod("p", 2, prioritized(1)), "", nil},
		"one of a higher priority does":                 {[]reservation.Reservation{important(2, moved("x", "a-0"))}, pod("p", 2, prioritized(3)), "a", []int{0, 1}},
		"a Pod without GPUs in a gang":                  {[]reservation.Reservation{moved("x", "a-0", "a-1")}, pod("p", 0, in("g", 1, 0)), "a", nil},
		"one that asks for more than is kept":           {[]reservation.Reservation{moved("p", "a-0")}, pod("p", 2), "a", []int{0, 1}},
		"one that is moved and needs no cards":          {[]reservation.Reservation{moved("p")}, pod("p", 0, in("g", 1, 0)), "a", nil},
		"one whose reservation is for others' CPU only": {[]reservation.Reservation{moved("x")}, pod("p", 2), "a", []int{0, 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 2)
			f.keep("a", test.kept...)
			f.comes(test.comes)
			decision := f.decide(test.comes)
			if got := f.cardsOf(test.comes); decision.Node != test.node || !slices.Equal(got, test.cards) {
				t.Errorf("it gets node %q, cards %v, want %q, %v", decision.Node, got, test.node, test.cards)
			}
		})
	}
}

// Left to itself the engine would choose node b, which it fills.
func TestAPodThatIsMovedGoesNowhereElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "l", 1)
	f.keep("a", moved("p", "a-2"))
	user := at(pod("user", 1), "a", 2)
	p := pod("p", 1)
	f.comes(user, p)
	decision := f.decide(p)
	if want := "it is being moved: its place on node a is kept for it and not free yet"; decision.Waits != want || decision.Node != "" {
		t.Fatalf("while its card is in use: %+v, want to wait: %s", decision, want)
	}
	if got := f.Preempt(t.Context(), p); got != "" {
		t.Errorf("preemption says %q", got)
	}
	f.due(settle) // the annotation is new
	f.decide(p)
	if got := f.due(10 * time.Second); len(got) > 0 {
		t.Errorf("though nothing has happened it is time for %v", got)
	}
	f.goes(user)
	if got := f.due(0); !slices.Equal(got, []string{"p"}) {
		t.Errorf("when the card is free it is time for %v", got)
	}
	if decision := f.decide(p); decision.Node != "a" || !slices.Equal(f.cardsOf(p), []int{2}) {
		t.Errorf("it gets node %q, cards %v, want a and card 2", decision.Node, f.cardsOf(p))
	}
}

func TestAPlaceThatIsLostIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture){
		"its time is over": func(f *fixture) { f.step(10 * time.Minute) },
		"it is removed":    func(f *fixture) { f.keep("a") },
		"the node is cordoned": func(f *fixture) {
			f.change("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		},
		"the node has a taint": func(f *fixture) {
			f.change("a", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
			})
		},
		"the card is broken": func(f *fixture) { f.listed("a", inventory.GPU{UUID: "a-0", Health: inventory.Unhealthy}) },
		"the card is gone":   func(f *fixture) { f.listed("a", inventory.GPU{UUID: "new", Health: inventory.Unhealthy}) },
		"the node is gone": func(f *fixture) {
			f.nodeGone(f.infos["a"].Node())
			delete(f.infos, "a")
			f.names = []string{"b"}
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 1)
			f.addNode("b", "l", 1)
			f.keep("a", moved("p", "a-0"))
			p := pod("p", 1)
			f.comes(at(pod("user", 1), "a", 0), p)
			if decision := f.decide(p); decision.Node != "" {
				t.Fatalf("it does not wait: %+v", decision)
			}
			f.due(settle) // the annotation is new
			f.decide(p)
			f.clock.Step(shortestPause)
			happens(f)
			if got := f.due(0); !slices.Equal(got, []string{"p"}) {
				t.Errorf("it is time for %v, want the Pod", got)
			}
			if decision := f.decide(p); decision.Node != "b" {
				t.Errorf("decision %+v, want node b", decision)
			}
		})
	}
}

// listed lets the agent of a node list other GPUs.
func (f *fixture) listed(node string, gpus ...inventory.GPU) {
	f.t.Helper()
	text, err := inventory.Inventory{GPUs: gpus}.String()
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(node, func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, inventory.Annotation, text) })
}

// Another plugin may know why a node is not for the Pod.
func TestAPlaceWhoseNodeRefusesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.keep("a", moved("p", "a-0"))
	p := pod("p", 1)
	f.comes(p)
	decision := f.decide(p)
	if decision.Node != "a" {
		t.Fatalf("decision %+v", decision)
	}
	f.Refuse(p.UID, decision.Plan, "a")
	if decision := f.decide(p); decision.Node != "b" {
		t.Errorf("decision %+v, want node b", decision)
	}
}

func TestAPodThatIsMovedToANodeWithoutAnAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 3)
	f.change("a", func(n *corev1.Node) { delete(n.Annotations, inventory.Annotation) })
	kept := moved("p")
	kept.Cards = 2
	f.keep("a", kept)
	user := at(pod("user", 2), "a")
	p, other := pod("p", 2), pod("other", 1)
	f.comes(user, p, other)
	if decision := f.decide(p); !strings.Contains(decision.Waits, "not free yet") {
		t.Errorf("while the cards are in use: %+v", decision)
	}
	f.goes(user)
	if decision := f.decide(other); decision.Node != "a" {
		t.Errorf("one card is free for others: %+v", decision)
	}
	if decision := f.decide(p); decision.Node != "a" {
		t.Errorf("when enough are free: %+v", decision)
	}
}

func TestAShareIsMovedToItsCard(t *testing.T) {
	t.Parallel()
	share := func(percent string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{v1.ResourceGPUPercent: resource.MustParse(percent)}
		}
	}
	f := newFixture(t)
	f.addNode("a", "l", 2)
	kept := moved("p", "a-1")
	kept.Percent = 60
	f.keep("a", kept)
	p, large, small, user := pod("p", 0, share("60")), pod("large", 0, share("50")), pod("small", 0, share("40")), pod("user", 1)
	f.comes(at(user, "a", 0), p, large, small)
	if decision := f.decide(large); decision.Node != "" {
		t.Errorf("another one gets what is kept: %+v", decision)
	}
	if decision := f.decide(small); decision.Node != "a" || !slices.Equal(f.cardsOf(small), []int{1}) {
		t.Errorf("one that fits beside it gets cards %v: %+v", f.cardsOf(small), decision)
	}
	if decision := f.decide(p); decision.Node != "a" || !slices.Equal(f.cardsOf(p), []int{1}) {
		t.Errorf("it gets cards %v: %+v", f.cardsOf(p), decision)
	}
}

// Two Pods are moved to one node, where only one more fits beside the present user.
func TestPlacesThatAreKeptOnOneNodeAreTakenTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "l", 4)
	f.keep("a", moved("train-1", "a-3"), moved("train-0", "a-2"))
	hungry := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("25")
	}
	user := at(pod("user", 1, hungry), "a", 0)
	pods := gang("train", 2, 2, hungry)
	f.comes(user)
	f.comes(pods...)
	if decision := f.decide(pods[0]); !strings.Contains(decision.Waits, "on node a") {
		t.Fatalf("while there is too little CPU: %+v", decision)
	}
	f.goes(user)
	if decision := f.decide(pods[0]); decision.Node != "a" {
		t.Fatalf("decision %+v", decision)
	}
	if got := [][]int{f.cardsOf(pods[0]), f.cardsOf(pods[1])}; !cmp.Equal(got, [][]int{{2}, {3}}) {
		t.Errorf("cards %v", got)
	}
}

// The gang has to be in one leaf, and moves from leaf l to leaf m, one Pod after the
// other.
func TestAGangMovesToAnotherLeafPodByPod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "m", 2)
	pods := gang("train", 2, 2, inOneLeaf)
	running := []*corev1.Pod{at(pods[0], "a", 0), at(pods[1], "a", 1)}
	f.comes(running...)
	f.keep("b", moved("train-0", "b-0"), moved("train-1", "b-1"))
	for i, one := range running {
		f.goes(one)
		again := pod(one.Name, 1, in("train", 2, i), inOneLeaf)
		again.UID = types.UID("again-" + one.Name)
		f.comes(again)
		decision := f.decide(again)
		if decision.Node != "b" || !slices.Equal(f.cardsOf(again), []int{i}) {
			t.Fatalf("%s gets node %q, cards %v", one.Name, decision.Node, f.cardsOf(again))
		}
		if wait, err := f.reserve(again, decision); wait || err != nil {
			t.Fatalf("%s waits %t for those that have not moved, error %v", one.Name, wait, err)
		}
		f.infos["b"].RemovePod(f.logger, at(again, "b")) //nolint:errcheck // it was added
		f.comes(at(again, "b", i))
	}
	if got := f.free(); got != 4 {
		t.Errorf("%d GPUs are free in the end, want the 4 of leaf l", got)
	}
}

func TestAGangThatIsMovedAtOnceStartsTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "m", 2)
	f.keep("b", moved("train-0", "b-0"), moved("train-1", "b-1"))
	user := at(pod("user", 1), "b", 1)
	pods := gang("train", 3, 3)
	f.comes(user)
	f.comes(pods...)
	if decision := f.decide(pods[0]); !strings.Contains(decision.Waits, "its place on node b is kept for it") {
		t.Fatalf("while a place is in use: %+v", decision)
	}
	if got := f.cardsOf(pods[0]); len(got) > 0 {
		t.Errorf("one has cards %v before all can start", got)
	}
	f.goes(user)
	if decision := f.decide(pods[0]); decision.Node != "b" {
		t.Fatalf("decision %+v", decision)
	}
	seat, _ := f.registry.SeatOf(pods[2].UID)
	if got := [][]int{f.cardsOf(pods[0]), f.cardsOf(pods[1])}; !cmp.Equal(got, [][]int{{0}, {1}}) || seat.Node != "a" {
		t.Errorf("cards %v; the one that nothing is kept for goes to %q", got, seat.Node)
	}
}

// Else the rescheduler, which waits for the first to arrive before it moves the next
// one away, would wait for ever.
func TestAGangThatRunsTakesThePlacesThatAreFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	pods := gang("train", 3, 3)
	f.comes(at(pods[2], "a", 2))
	f.keep("a", moved("train-0", "a-2"), moved("train-1", "a-1"))
	f.comes(pods[:2]...)
	if decision := f.decide(pods[0]); decision.Node != "" || !slices.Equal(f.cardsOf(pods[1]), []int{1}) {
		t.Errorf("the first gets node %q, the other cards %v; want it to go to card 1", decision.Node, f.cardsOf(pods[1]))
	}
	wait, err := f.reserve(pods[1], f.decide(pods[1]))
	if wait || err != nil {
		t.Errorf("it waits %t, error %v", wait, err)
	}
	if decision := f.decide(pods[0]); !strings.Contains(decision.Waits, "not free yet") {
		t.Errorf("the one whose place is in use: %+v", decision)
	}
}

// Of the two that nothing is kept for one has to start, the one that is late will be the
// gang's fourth.
func TestThoseThatAreLateAreCountedOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	pods := gang("train", 5, 4)
	f.comes(at(pods[4], "a", 3))
	f.keep("a", moved("train-0", "a-0"), moved("train-1", "a-3"))
	f.comes(at(pod("user", 1), "a", 1))
	f.comes(pods[:4]...)
	f.decide(pods[0])
	if got := [][]int{f.cardsOf(pods[0]), f.cardsOf(pods[1]), f.cardsOf(pods[2]), f.cardsOf(pods[3])}; !cmp.Equal(got, [][]int{{0}, nil, {2}, nil}) {
		t.Errorf("cards %v", got)
	}
}

func TestThoseThatNothingIsKeptForFollowTheirGangToItsLeaf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "m", 4)
	f.keep("b", moved("train-0", "b-0"))
	pods := gang("train", 2, 2, inOneLeaf)
	f.comes(pods...)
	f.decide(pods[0])
	if seat, seated := f.registry.SeatOf(pods[1].UID); !seated || seat.Node != "b" {
		t.Errorf("seated %t, on node %q, want b", seated, seat.Node)
	}
}

func TestAPodIsNotToldThatWhatIsKeptForItIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	kept := toStart("p", "a-0")
	kept.CPU = 64000
	f.keep("a", kept)
	p := pod("p", 1)
	f.comes(at(pod("user", 1), "a", 0), p)
	if got := f.decide(p).Waits; !strings.Contains(got, "too few free GPUs") || strings.Contains(got, "free CPU") {
		t.Errorf("it says %q", got)
	}
}

func TestAPodThatStarvesClaimsTheNodeThatIsKeptForIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	kept := toStart("p", "a-0")
	kept.Until = beginning.Add(time.Hour)
	f.keep("a", kept)
	p := pod("p", 1)
	f.comes(at(pod("user", 1), "a", 0), p)
	f.decide(p)
	f.clock.Step(10 * time.Minute)
	f.decide(p)
	if starving, _ := f.claims.count(); starving != 1 {
		t.Errorf("%d nodes are claimed, want 1", starving)
	}
}

// Node a has CPU for two of the three: the user leaves when the moved one has arrived,
// and then the other one starts.
func TestAPodThatIsMovedDoesNotWaitForWhatIsKeptForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	hungry := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("30")
	}
	start, move := toStart("starts", "a-0"), moved("p", "a-1")
	start.CPU, move.CPU = 30000, 30000
	f.keep("a", start, move)
	p, other := pod("p", 1, hungry), pod("other", 1)
	f.comes(at(pod("user", 1, hungry), "a", 0), p, other)
	if decision := f.decide(other); decision.Node != "" {
		t.Errorf("one that nothing is kept for: %+v", decision)
	}
	if decision := f.decide(p); decision.Node != "a" {
		t.Errorf("the one that is moved: %+v", decision)
	}
}

func TestAPodThatIsToStartMayStartElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.keep("a", toStart("p", "a-0"))
	user := at(pod("user", 1), "b", 0)
	p := pod("p", 1)
	f.comes(at(pod("leaves", 1), "a", 0), user, p)
	if decision := f.decide(p); decision.Node != "" || strings.Contains(decision.Waits, "being moved") {
		t.Fatalf("while all is in use: %+v", decision)
	}
	f.goes(user)
	if decision := f.decide(p); decision.Node != "b" {
		t.Errorf("decision %+v, want node b", decision)
	}
}

func TestClaimsOfOthersDoNotKeepAPodFromItsReservedNode(t *testing.T) {
	t.Parallel()
	for _, kept := range []reservation.Reservation{moved("p", "a-0"), toStart("p", "a-0")} {
		f := newFixture(t)
		f.addNode("a", "l", 2)
		f.addNode("b", "l", 2)
		f.keep("a", kept)
		old, p, other := pod("old", 1), pod("p", 1), pod("other", 1)
		p.CreationTimestamp.Time, other.CreationTimestamp.Time = beginning.Add(time.Minute), beginning.Add(time.Minute)
		f.comes(old, p, other)
		f.claims.set(f.registry.Attempt("old"), map[string]bool{"a": true, "b": true}, f.clock.Now(), beginning.Add(time.Hour), true)
		if decision := f.decide(other); decision.Node != "" {
			t.Errorf("%s: another Pod gets node %s", kept.Kind, decision.Node)
		}
		if decision := f.decide(p); decision.Node != "a" {
			t.Errorf("%s: decision %+v, want node a", kept.Kind, decision)
		}
	}
}

func TestPreemptionAndReservations(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kept []reservation.Reservation // on node a, of two cards, which low has
		want []string
	}{
		"nothing is reserved":                           {nil, []string{"low"}},
		"both cards, for one of a lower priority":       {[]reservation.Reservation{important(4, moved("x", "a-0", "a-1"))}, []string{"low"}},
		"a card, for one of the same priority":          {[]reservation.Reservation{important(5, moved("x", "a-0"))}, nil},
		"a card, for one of a higher priority":          {[]reservation.Reservation{important(6, moved("x", "a-0"))}, nil},
		"both cards, for who preempts":                  {[]reservation.Reservation{important(5, toStart("p", "a-0", "a-1"))}, []string{"low"}},
		"both cards, to which who preempts is moved":    {[]reservation.Reservation{important(5, moved("p", "a-0", "a-1"))}, nil},
		"cards that are gone, to which it would move":   {[]reservation.Reservation{important(5, moved("p", "x", "y"))}, []string{"low"}},
		"a card for another, the other for who wants 2": {[]reservation.Reservation{important(5, moved("x", "a-0")), important(5, toStart("p", "a-1"))}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			low := at(pod("low", 2, prioritized(1)), "a", 0, 1)
			f := newFixture(t, low)
			f.addNode("a", "l", 2)
			f.keep("a", test.kept...)
			deleted := f.deletions("")
			p := pod("p", 2, prioritized(5))
			f.comes(low, p)
			if decision := f.decide(p); decision.Node != "" {
				t.Fatalf("it fits: %+v", decision)
			}
			said := f.Preempt(t.Context(), p)
			if test.want == nil {
				if strings.Contains(said, "preempted") || f.registry.Terminating("low") {
					t.Errorf("it says %q, the Pod is terminating %t", said, f.registry.Terminating("low"))
				}
				return
			}
			if !strings.Contains(said, "1 Pods of a lower priority are preempted") {
				t.Fatalf("it says %q", said)
			}
			if got := <-deleted; got != test.want[0] {
				t.Errorf("deleted is %s, want %v", got, test.want)
			}
		})
	}
}

func TestAReservationIsNamedIfItIsTheReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kept []reservation.Reservation
		want int32
		says string
	}{
		"two of the cards are reserved":      {[]reservation.Reservation{moved("x", "a-0", "a-1")}, 3, "; it would fit, but 2 GPUs are reserved by MovePlans for others"},
		"it would not fit anyway":            {[]reservation.Reservation{moved("x", "a-0", "a-1")}, 5, ""},
		"its own cards and one of others'":   {[]reservation.Reservation{moved("x", "a-0"), toStart("p", "a-1")}, 4, "but 1 GPU is reserved"},
		"CPU is reserved":                    {[]reservation.Reservation{{Plan: "q", Pod: "default/x", Kind: reservation.Move, CPU: 64000, Until: beginning.Add(time.Hour)}}, 1, "; it would fit, but places are reserved by MovePlans for others"},
		"what is reserved does not matter":   {[]reservation.Reservation{important(-1, moved("x", "a-0"))}, 5, ""},
		"nothing is reserved, it is too big": {nil, 5, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 4)
			f.keep("a", test.kept...)
			p := pod("p", int(test.want))
			f.comes(p)
			got := f.decide(p).Waits
			if got == "" || !strings.Contains(got, test.says) || strings.Contains(got, "reserved") != (test.says != "") {
				t.Errorf("it says %q, want %q in it", got, test.says)
			}
		})
	}
}

// Equal Pods are told the same for a while, unless other reservations stand in their
// way.
func TestPodsThatDifferInTheirReservationsAreNotToldTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.keep("a", toStart("big", "a-0"), toStart("other", "a-1"))
	big, plain := pod("big", 2), pod("plain", 2)
	f.comes(big, plain)
	if got := f.decide(plain).Waits; !strings.Contains(got, "2 GPUs are reserved") {
		t.Errorf("one is told %q", got)
	}
	if got := f.decide(big).Waits; !strings.Contains(got, "but 1 GPU is reserved") {
		t.Errorf("the one for which a card is kept is told %q", got)
	}
}

func TestProfilesThatChooseTheNodeRespectReservations(t *testing.T) {
	t.Parallel()
	nodes := func(order map[string]int) []string { return slices.Sorted(maps.Keys(order)) }
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 2)
	f.keep("a", moved("p", "a-1"), moved("x", "a-0"))
	p, other := pod("p", 1), pod("other", 1)
	user := at(pod("user", 1), "a", 1)
	f.comes(user, p, other)
	if got := nodes(f.Decide(other, f.nodes(), true).Order); !slices.Equal(got, []string{"b"}) {
		t.Errorf("another Pod may go to %v, want b", got)
	}
	if _, err := f.Reserve(other, "a"); err == nil {
		t.Error("another Pod gets a reserved card")
	}
	if decision := f.Decide(p, f.nodes(), true); len(decision.Order) > 0 || !strings.Contains(decision.Waits, "not free yet") {
		t.Errorf("while its card is in use: %+v", decision)
	}
	f.goes(user)
	if got := nodes(f.Decide(p, f.nodes(), true).Order); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it may go to %v, want a", got)
	}
	if _, err := f.Reserve(p, "a"); err != nil || !slices.Equal(f.cardsOf(p), []int{1}) {
		t.Errorf("it gets cards %v, error %v, want card 1", f.cardsOf(p), err)
	}
	f.change("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	f.goes(p)
	f.comes(p)
	if got := nodes(f.Decide(p, f.nodes(), true).Order); !slices.Equal(got, []string{"b"}) {
		t.Errorf("when the node is cordoned it may go to %v, want b", got)
	}
}

func TestPodsThatAreNotOursKeepOffWhatIsReserved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	if f.HasClaims(f.nodes()) {
		t.Error("nothing is reserved")
	}
	f.keep("a", moved("p", "a-0"))
	web := pod("web", 0)
	if !f.HasClaims(f.nodes()) || f.Reserved(web, "a").CPU != 1000 || f.Reserved(web, "b").Pods != 0 {
		t.Errorf("kept are %+v and %+v", f.Reserved(web, "a"), f.Reserved(web, "b"))
	}
	f.keep("a")
	if f.HasClaims(f.nodes()) {
		t.Error("nothing is reserved any more")
	}
	f.keep("a", moved("p", "a-0"))
	f.nodeGone(f.infos["a"].Node())
	delete(f.infos, "a")
	f.names = []string{"b"}
	if f.HasClaims(f.nodes()) {
		t.Error("the node is gone")
	}
}

func TestThoseWhoWaitAreTriedAgainWhenAReservationEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		happens func(*fixture)
		want    []string
	}{
		"by itself":   {func(f *fixture) { f.step(4 * time.Second) }, []string{"p"}},
		"as removed":  {func(f *fixture) { f.keep("a") }, []string{"p"}},
		"or does not": {func(*fixture) {}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 1)
			short := moved("x", "a-0")
			short.Until = beginning.Add(5 * time.Second)
			f.keep("a", short)
			p := pod("p", 1)
			f.comes(p)
			if decision := f.decide(p); decision.Node != "" {
				t.Fatalf("it fits: %+v", decision)
			}
			f.due(settle) // the annotation is new
			f.decide(p)
			f.clock.Step(shortestPause)
			test.happens(f)
			if got := f.due(0); !slices.Equal(got, test.want) {
				t.Errorf("it is time for %v, want %v", got, test.want)
			}
			if decision := f.decide(p); (decision.Node == "a") != (test.want != nil) {
				t.Errorf("decision %+v", decision)
			}
		})
	}
}

func TestAGangThatIsMovedIsNotPartial(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	pods := gang("train", 3, 3)
	f.comes(at(pods[0], "a", 0), at(pods[1], "a", 1), at(pod("user", 2), "a", 2, 3))
	kept := moved("train-2", "a-2")
	kept.Until = beginning.Add(time.Hour)
	f.keep("a", kept)
	f.comes(pods[2])
	f.decide(pods[2])
	patience := time.Duration(f.args.PartialGangTimeoutSeconds) * time.Second
	partial := func() int { return len(f.registry.Partial(f.clock.Now(), f.mirror.Moving())) }
	partial()
	f.clock.Step(2 * patience)
	if got := partial(); got > 0 {
		t.Errorf("%d Pods are evicted while their gang is moved", got)
	}
	f.clock.Step(time.Hour)
	partial()
	f.clock.Step(patience)
	if got := partial(); got != 2 {
		t.Errorf("when the reservation has ended %d Pods are evicted, want the 2 that are of no use", got)
	}
}

// scene is a random cluster with reservations, no two of which are for the same card.
type scene struct {
	*fixture
	dice *rand.Rand
	// user is who has a card, by its UUID, and kept what is kept of it.
	user map[string]string
	kept map[string]reservation.Reservation
}

func newScene(t *testing.T, seed uint64) *scene {
	t.Helper()
	s := &scene{fixture: newFixture(t), dice: rand.New(rand.NewPCG(seed, 4)), user: map[string]string{}, kept: map[string]reservation.Reservation{}}
	for _, node := range []string{"a", "b", "c"} {
		s.addNode(node, "l", 4)
		for card := range 4 {
			if s.dice.IntN(5) < 2 {
				user := fmt.Sprintf("user-%s-%d", node, card)
				s.comes(at(pod(user, 1), node, card))
				s.user[fmt.Sprintf("%s-%d", node, card)] = user
			}
		}
	}
	for name, list := range s.reservations() {
		s.keep(name, list...)
	}
	return s
}

// reservations are for Pods p0 to p3, which come, and for Pods q0 to q3, which don't.
func (s *scene) reservations() map[string][]reservation.Reservation {
	lists := map[string][]reservation.Reservation{}
	for i := range 8 {
		node, cards := string(rune('a'+s.dice.IntN(3))), s.dice.Perm(4)[:1+i%2]
		uuids := make([]string, len(cards))
		taken := false
		for j, card := range cards {
			uuids[j] = fmt.Sprintf("%s-%d", node, card)
			_, is := s.kept[uuids[j]]
			taken = taken || is
		}
		if taken || s.dice.IntN(4) == 0 {
			continue
		}
		one := moved(fmt.Sprintf("%c%d", "pq"[i/4], i%4), uuids...)
		one.Priority = int32(s.dice.IntN(3))
		if s.dice.IntN(2) == 0 {
			one.Kind = reservation.Start
		}
		lists[node] = append(lists[node], one)
		for _, uuid := range uuids {
			s.kept[uuid] = one
		}
	}
	return lists
}

// room is the most cards of one node that a Pod may have.
func (s *scene) room(p *corev1.Pod) int {
	most := 0
	for _, node := range s.names {
		count := 0
		for card := range 4 {
			if uuid := fmt.Sprintf("%s-%d", node, card); s.user[uuid] == "" && !s.keptFrom(uuid, p) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// keptFrom reports whether a card is kept for another Pod that counts at least as much.
func (s *scene) keptFrom(uuid string, p *corev1.Pod) bool {
	kept, is := s.kept[uuid]
	return is && kept.Pod != "default/"+p.Name && kept.Priority >= *p.Spec.Priority
}

// destination is what is kept for a Pod that is moved and wants so many cards, in order.
func (s *scene) destination(p *corev1.Pod, want int) []string {
	var to []string
	for uuid, kept := range s.kept {
		if kept.Pod == "default/"+p.Name && kept.Kind == reservation.Move && len(kept.GPUs) == want {
			to = append(to, uuid)
		}
	}
	slices.Sort(to)
	return to
}

// place lets a Pod come and checks what becomes of it.
func (s *scene) place(p *corev1.Pod, want int) {
	s.t.Helper()
	s.comes(p)
	to, room, decision := s.destination(p, want), s.room(p), s.decide(p)
	blocked := slices.ContainsFunc(to, func(uuid string) bool { return s.user[uuid] != "" })
	var got []string
	for _, card := range s.cardsOf(p) {
		got = append(got, fmt.Sprintf("%s-%d", decision.Node, card))
	}
	slices.Sort(got)
	switch {
	case blocked:
		if len(got) > 0 || !strings.Contains(decision.Waits, "not free yet") {
			s.t.Errorf("%s, whose cards %v are in use, gets %v: %+v", p.Name, to, got, decision)
		}
	case len(to) > 0:
		if !slices.Equal(got, to) {
			s.t.Errorf("%s gets %v, %v are kept for it", p.Name, got, to)
		}
	case (len(got) > 0) != (room >= want):
		s.t.Errorf("%s gets %v, there are %d cards for it, and it wants %d", p.Name, got, room, want)
	}
	s.take(p, got, decision.Node)
}

// take checks that cards of a node are a Pod's to take, and notes that it has them.
func (s *scene) take(p *corev1.Pod, uuids []string, node string) {
	s.t.Helper()
	for _, uuid := range uuids {
		if s.user[uuid] != "" || s.keptFrom(uuid, p) {
			s.t.Errorf("%s gets card %s, which %q has; kept is %+v", p.Name, uuid, s.user[uuid], s.kept[uuid])
		}
		s.user[uuid] = p.Name
	}
	maps.DeleteFunc(s.kept, func(uuid string, kept reservation.Reservation) bool {
		return len(uuids) > 0 && kept.Pod == "default/"+p.Name && strings.HasPrefix(uuid, node)
	})
}

// What a decision gives is free and not kept for another one; a Pod that is moved gets
// what is kept for it; and nobody gets nothing while there is room for it.
func TestReservedPlacesInRandomClusters(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		s := newScene(t, seed)
		for _, i := range s.dice.Perm(8) {
			priority, want := int32(s.dice.IntN(3)), 1+i%2
			s.place(pod(fmt.Sprintf("%c%d", "pr"[i/4], i%4), want, prioritized(priority)), want)
		}
		if t.Failed() {
			t.Fatalf("seed %d; reserved are %+v", seed, s.kept)
		}
	}
}
