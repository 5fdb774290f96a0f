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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

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
		t.Errorf("preemption returns %q", got)
	}
	f.due(cacheLag) // the annotation is new
	f.decide(p)
	if got := f.due(10 * time.Second); len(got) > 0 {
		t.Errorf("although nothing has happened, %v are due", got)
	}
	f.goes(user)
	if got := f.due(0); !slices.Equal(got, []string{"p"}) {
		t.Errorf("when the card is free, %v are due", got)
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
			f.nodeDeleted(f.infos["a"].Node())
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
			f.due(cacheLag) // the annotation is new
			f.decide(p)
			f.clock.Step(shortestPause)
			happens(f)
			if got := f.due(0); !slices.Equal(got, []string{"p"}) {
				t.Errorf("due are %v, want the Pod", got)
			}
			if decision := f.decide(p); decision.Node != "b" {
				t.Errorf("decision %+v, want node b", decision)
			}
		})
	}
}

// While the kubelet or the node's agent restarts, the kubelet offers no GPUs for some seconds.
func TestAPlaceIsKeptWhileTheKubeletOffersNoGPUs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.keep("a", moved("p", "a-0"))
	p := pod("p", 1)
	f.comes(p)
	f.offers("a", "0")
	if decision := f.decide(p); decision.Node != "" || decision.Waits == "" {
		t.Fatalf("while node a offers no GPUs: %+v, want to wait", decision)
	}
	f.due(cacheLag) // the annotation is new
	f.decide(p)
	f.clock.Step(shortestPause)
	f.offers("a", "1")
	if got := f.due(0); !slices.Equal(got, []string{"p"}) {
		t.Errorf("when it offers them again, %v are due", got)
	}
	if decision := f.decide(p); decision.Node != "a" || !slices.Equal(f.cardsOf(p), []int{0}) {
		t.Errorf("it gets node %q, cards %v, want a and card 0", decision.Node, f.cardsOf(p))
	}
}

// A node whose agent never comes back must not hold up the Pod for ever.
func TestAPlaceOnANodeThatOffersNoGPUsIsKeptUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.keep("a", moved("p", "a-0"))
	p := pod("p", 1)
	f.comes(p)
	f.offers("a", "0")
	f.decide(p)
	f.due(cacheLag)
	f.decide(p)
	f.step(10 * time.Minute)
	f.due(0)
	if decision := f.decide(p); decision.Node != "b" {
		t.Errorf("decision %+v, want node b", decision)
	}
}

// offers changes how many GPUs the kubelet of a node offers.
func (f *fixture) offers(node, count string) {
	f.t.Helper()
	f.change(node, func(n *corev1.Node) { n.Status.Allocatable[v1.ResourceGPU] = resource.MustParse(count) })
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
	f.Refuse(t.Context(), p.UID, decision.Plan, "a")
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
// one away, would wait forever.
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
		t.Errorf("the message is %q", got)
	}
}
