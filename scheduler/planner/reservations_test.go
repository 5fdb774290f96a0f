// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/reservation"
)

// What a MovePlan keeps for a Pod stays its own, although nothing is reserved in time for it there.
func TestAPodThatWaitsGetsTheNodeThatIsKeptForIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	kept := toStart("p", "a-0")
	kept.Until = beginning.Add(time.Hour)
	f.keep("a", kept)
	user, p := at(pod("user", 1), "a", 0), pod("p", 1)
	f.comes(user, p)
	f.waitInLine(p)
	f.goes(user)
	small := pod("small", 1)
	f.comes(small)
	if decision := f.decide(small); decision.Node != "" {
		t.Errorf("another one gets node %s", decision.Node)
	}
	if decision := f.decide(p); decision.Node != "a" {
		t.Errorf("it gets %+v, want node a", decision)
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

func TestNodesThatAreKeptForOthersDoNotKeepAPodFromItsReservedNode(t *testing.T) {
	t.Parallel()
	for _, kept := range []reservation.Reservation{moved("p", "a-0"), toStart("p", "a-0")} {
		f := newFixture(t)
		f.addNode("a", "l", 2)
		f.addNode("b", "l", 2)
		f.keep("a", kept)
		old, p, other := pod("old", 1), pod("p", 1), pod("other", 1)
		p.CreationTimestamp.Time, other.CreationTimestamp.Time = beginning.Add(time.Minute), beginning.Add(time.Minute)
		f.comes(old, p, other)
		f.kept.set(f.registry.Attempt("old"), keeping(beginning.Add(time.Hour), "a", "b"))
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
		"nothing is reserved":                         {nil, []string{"low"}},
		"both cards, for one of a lower priority":     {[]reservation.Reservation{important(4, moved("x", "a-0", "a-1"))}, []string{"low"}},
		"a card, for one of the same priority":        {[]reservation.Reservation{important(5, moved("x", "a-0"))}, nil},
		"a card, for one of a higher priority":        {[]reservation.Reservation{important(6, moved("x", "a-0"))}, nil},
		"both cards, for the preemptor":               {[]reservation.Reservation{important(5, toStart("p", "a-0", "a-1"))}, []string{"low"}},
		"both cards, to which the preemptor is moved": {[]reservation.Reservation{important(5, moved("p", "a-0", "a-1"))}, nil},
		"cards that are gone, to which it would move": {[]reservation.Reservation{important(5, moved("p", "x", "y"))}, []string{"low"}},
		"a card for another, one for the preemptor":   {[]reservation.Reservation{important(5, moved("x", "a-0")), important(5, toStart("p", "a-1"))}, nil},
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
					t.Errorf("the message is %q, the Pod is terminating %t", said, f.registry.Terminating("low"))
				}
				return
			}
			if !strings.Contains(said, "1 Pod of a lower priority is preempted") {
				t.Fatalf("the message is %q", said)
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
				t.Errorf("the message is %q, want %q in it", got, test.says)
			}
		})
	}
}

// Reservations come and go all the time in a cluster where much is moved, and each new message is a write.
func TestAPodIsToldTheSameForAWhileWhateverIsReservedForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	p := pod("p", 2)
	f.comes(at(pod("other", 1), "a", 0), p)
	first := f.decide(p).Waits
	f.keep("a", toStart("x", "a-1"))
	f.clock.Step(time.Second)
	if second := f.decide(p).Waits; second != first {
		t.Errorf("after a second the message differs:\n%s\n%s", first, second)
	}
	f.clock.Step(time.Minute)
	if third := f.decide(p).Waits; third == first {
		t.Errorf("after a minute the message is the same, though less is free: %s", third)
	}
}

// Equal Pods get the same message for a while, unless other reservations block them.
func TestPodsThatDifferInTheirReservationsAreNotToldTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.keep("a", toStart("big", "a-0"), toStart("other", "a-1"))
	big, plain := pod("big", 2), pod("plain", 2)
	f.comes(big, plain)
	if got := f.decide(plain).Waits; !strings.Contains(got, "2 GPUs are reserved") {
		t.Errorf("one gets the message %q", got)
	}
	if got := f.decide(big).Waits; !strings.Contains(got, "but 1 GPU is reserved") {
		t.Errorf("the one for which a card is kept gets the message %q", got)
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
	if f.holdsRoom() {
		t.Error("nothing is reserved")
	}
	f.keep("a", moved("p", "a-0"))
	web := pod("web", 0)
	if !f.holdsRoom() || f.keptOn("a", web).CPU != 1000 || f.keptOn("b", web).Pods != 0 {
		t.Errorf("kept are %+v and %+v", f.keptOn("a", web), f.keptOn("b", web))
	}
	f.keep("a")
	if f.holdsRoom() {
		t.Error("nothing is reserved any more")
	}
	f.keep("a", moved("p", "a-0"))
	f.nodeDeleted(f.infos["a"].Node())
	delete(f.infos, "a")
	f.names = []string{"b"}
	if f.holdsRoom() {
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
			f.due(cacheLag) // the annotation is new
			f.decide(p)
			f.clock.Step(shortestPause)
			test.happens(f)
			if got := f.due(0); !slices.Equal(got, test.want) {
				t.Errorf("due are %v, want %v", got, test.want)
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
