// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// withQueues gives the fixture GPUQueues. All namespaces have no labels.
func (f *fixture) withQueues(list ...*v1.GPUQueue) {
	f.t.Helper()
	if len(list) > 0 {
		f.line.SetState(queues.NewState(gpuqueue.NewTree(list), list, func(string) *corev1.Namespace { return nil }))
	}
}

// queue returns a GPUQueue for all namespaces.
func queue(name string, guaranteed int32, limit *int32) *v1.GPUQueue {
	return &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{},
		Resources:         []v1.GPUQueueResource{{GPU: v1.AnyGPU, Guaranteed: guaranteed, Limit: limit}},
	}}
}

func inQueue(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[v1.LabelQueue] = name }
}

func runsFor(limit time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationMaxRuntime, strconv.Itoa(int(limit.Seconds())))
		p.Spec.ActiveDeadlineSeconds = new(int64(limit.Seconds()))
	}
}

func since(start time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, new(metav1.NewTime(start))
	}
}

func TestAQueueNeverHoldsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		queues []*v1.GPUQueue
		pod    *corev1.Pod
		want   string // a part of the message; empty if it gets a place
	}{
		"within the limit":               {[]*v1.GPUQueue{queue("vision", 0, ptr.To[int32](4))}, pod("new", 2, inQueue("vision")), ""},
		"beyond the limit":               {[]*v1.GPUQueue{queue("vision", 0, ptr.To[int32](4))}, pod("new", 3, inQueue("vision")), "queue vision holds 2 of at most 4 GPUs"},
		"more than the limit will allow": {[]*v1.GPUQueue{queue("vision", 0, ptr.To[int32](4))}, pod("new", 5, inQueue("vision")), "queue vision"},
		"another queue has room":         {[]*v1.GPUQueue{queue("vision", 0, ptr.To[int32](2)), queue("speech", 0, nil)}, pod("new", 3, inQueue("speech")), ""},
		"a queue that does not exist":    {[]*v1.GPUQueue{queue("vision", 0, nil)}, pod("new", 1, inQueue("speech")), `there is no GPUQueue "speech"`},
		"no GPUQueues at all":            {nil, pod("new", 1, inQueue("speech")), `there is no GPUQueue "speech"`},
		"no GPUQueues, and none named":   {nil, pod("new", 1), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.withQueues(test.queues...)
			f.comes(at(pod("runs", 2, inQueue("vision")), "node-0", 0, 1), test.pod)
			decision := f.decide(test.pod)
			if (decision.Node != "") != (test.want == "") || !strings.Contains(decision.Waits, test.want) {
				t.Errorf("decision is %+v, want %q", decision, test.want)
			}
		})
	}
}

// A Pod of a namespace that the queue does not accept may run nevertheless: another scheduler has bound it, or the
// namespace was accepted before.
func TestAQueueDoesNotPayForANamespaceThatItDoesNotAccept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 16)
	victim, attacker := queue("victim", 8, ptr.To[int32](8)), queue("attacker", 0, ptr.To[int32](8))
	victim.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "victim"}
	attacker.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "attacker"}
	list := []*v1.GPUQueue{victim, attacker}
	f.line.SetState(queues.NewState(gpuqueue.NewTree(list), list, func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": map[string]string{"evil": "attacker"}[name]}}}
	}))
	inNamespace := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }
	own := pod("own", 1, inNamespace("evil"))
	f.comes(at(pod("runs", 8, inQueue("victim"), inNamespace("evil")), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), own)
	ledger := f.line.Ledger(f.line.State(), "")
	if got := ledger.Held("victim", v1.AnyGPU); got != 0 {
		t.Errorf("the victim's queue holds %v", got)
	}
	if decision := f.decide(own); !strings.Contains(decision.Waits, "queue attacker holds 8 of at most 8 GPUs") {
		t.Errorf("decision is %+v", decision)
	}
}

// Seats count before their Pods are bound: two Pods that are decided on one after the other must
// not exceed a limit together.
func TestSeatsCountAgainstTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("vision", 0, ptr.To[int32](4)))
	first, second := pod("first", 3, inQueue("vision")), pod("second", 3, inQueue("vision"))
	f.comes(first, second)
	if decision := f.decide(first); decision.Node == "" {
		t.Fatalf("the first one: %+v", decision)
	}
	if decision := f.decide(second); decision.Node != "" {
		t.Errorf("the second one got a place beyond the limit: %+v", decision)
	}
}

func TestAnElasticGangStartsWithWhatItsQueueMayHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("vision", 0, ptr.To[int32](3)))
	pods := gang("train", 4, 2, inQueue("vision"))
	f.comes(pods...)
	if decision := f.decide(pods[0]); decision.Node == "" {
		t.Fatalf("it got no place: %+v", decision)
	}
	seats := 0
	for _, one := range pods {
		if _, seated := f.registry.SeatOf(one.UID); seated {
			seats++
		}
	}
	if seats != 2 {
		t.Errorf("%d Pods have seats, want the minimum of 2: with all 4 the queue would exceed its limit", seats)
	}
}

// A gang of two nodes waits for a Pod that ends in an hour. One node is free until then.
func TestWhoEndsInTimeUsesWhatIsBookedForLater(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"it ends before the booking begins": {pod("short", 4, runsFor(30*time.Minute)), true},
		"it would end later":                {pod("long", 4, runsFor(2*time.Hour)), false},
		"nobody knows when it ends":         {pod("unknown", 4), false},
		"it uses what is booked for nobody": {pod("elsewhere", 2, runsFor(2*time.Hour)), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for i, cards := range []int{8, 8, 2} {
				f.addNode(fmt.Sprint("node-", i), "a", cards)
			}
			f.withQueues(queue("all", 0, nil))
			f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7))
			large := []*corev1.Pod{pod("large-0", 8, in("large", 2, 0)), pod("large-1", 8, in("large", 2, 1))}
			f.comes(large...)
			if decision := f.decide(large[0]); decision.Node != "" {
				t.Fatalf("the gang got a place: %+v", decision)
			}
			f.line.Order()
			f.clock.Step(time.Minute)
			f.decide(large[0])
			booking, _ := f.line.Booking("default/large")
			if want := beginning.Add(time.Hour); !booking.From.Equal(want) || booking.Behind != "default/runs" {
				t.Fatalf("its place is booked from %v on, when %s ends, want %v, when default/runs ends", booking.From, booking.Behind, want)
			}
			f.comes(test.pod)
			f.line.Order()
			if decision := f.decide(test.pod); (decision.Node != "") != test.want {
				t.Errorf("decision is %+v, want a place: %t", decision, test.want)
			}
		})
	}
}

// When others have ended early, the gang gets its place at once, and its booking ends.
func TestABookingEndsWithTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	runs := at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3)
	waits := pod("waits", 8)
	f.comes(runs, waits)
	f.decide(waits)
	f.line.Order()
	f.clock.Step(time.Minute)
	f.decide(waits)
	if !f.line.Booked() {
		t.Fatal("nothing is booked")
	}
	f.goes(runs)
	if decision := f.decide(waits); decision.Node != "node-0" {
		t.Errorf("decision is %+v", decision)
	}
	if f.line.Booked() {
		t.Error("the booking is left")
	}
}

// Pods are preempted for another gang, which keeps their nodes from all others until they have left. That is soon over.
// The booking must not keep that gang away meanwhile: both would wait for each other.
func TestABookingIsKeptWhileItsNodesAreKeptForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("first", 0, nil), queue("second", 0, nil))
	large, urgent := pod("large", 8, inQueue("first"), runsFor(time.Hour)), pod("urgent", 4, inQueue("second"), runsFor(200*time.Hour), prioritized(9))
	f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), large, urgent)
	f.decide(large)
	f.decide(urgent)
	f.line.Order()
	f.kept.set(f.registry.Look(urgent.UID), keeping(f.clock.Now().Add(time.Hour), "node-0"))
	f.clock.Step(time.Minute)
	f.decide(large)
	if booking, booked := f.line.Booking("large"); !booked || booking.From.Before(beginning.Add(201*time.Hour)) {
		t.Errorf("its booking is %+v, want one from 201 hours after the beginning on", booking)
	}
	if f.line.Shadows(f.registry.Look(urgent.UID)) != nil {
		t.Error("the gang that Pods leave for waits for another one")
	}
}

// While a node takes no Pods, there is no time at which a gang of all nodes fits. When the node is back, others would
// take what is free if the gang had no booking for a while.
func TestABookingIsMadeAsSoonAsANodeIsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	large := pod("large", 8)
	cordon := func(closed bool) { f.change("node-0", func(node *corev1.Node) { node.Spec.Unschedulable = closed }) }
	f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), large)
	cordon(true)
	f.decide(large)
	f.line.Order()
	f.clock.Step(time.Minute)
	f.decide(large)
	if _, booked := f.line.Booking("large"); booked {
		t.Fatal("it has a booking on a node that takes no Pods")
	}
	cordon(false)
	f.clock.Step(time.Second) // they are revised
	f.line.OrderIfDue()
	f.decide(large)
	if _, booked := f.line.Booking("large"); !booked {
		t.Error("it has no booking when the node is back")
	}
}

// A gang with a booking starts late: its time has come, and by now it would still run when the booking behind
// it begins, which was made for the end of the gang.
func TestBookingsDoNotBlockThoseBeforeThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	runs := at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7)
	first, second := pod("first", 8, runsFor(time.Hour)), pod("second", 8, runsFor(2*time.Hour))
	f.comes(runs, first, second)
	for _, one := range []*corev1.Pod{first, second} {
		f.decide(one)
	}
	f.line.Order()
	f.clock.Step(time.Minute)
	f.decide(first)
	if _, booked := f.line.Booking("second"); !booked {
		t.Fatal("the second one has no booking")
	}
	f.goes(runs)
	f.clock.Step(59*time.Minute + 30*time.Second)
	if decision := f.decide(first); decision.Node == "" {
		t.Errorf("the first one got no place: %+v", decision)
	}
}

// While its place is booked, others don't take it: so it is tried again as soon as it is known that it fits.
func TestWhoseBookedPlaceIsFreeIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	runs, waits := at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), pod("waits", 8)
	f.comes(runs, waits)
	f.decide(waits)
	f.line.Order()
	if err := f.infos["node-0"].RemovePod(f.logger, runs); err != nil { // and no event says so
		t.Fatal(err)
	}
	f.clock.Step(2 * time.Second)
	f.refresh(f.nodes())
	if due := f.registry.Due(f.clock.Now(), 1); len(due) > 0 {
		t.Fatalf("%s is tried again although nobody knows of the room", due[0].Name)
	}
	f.line.LookAhead()
	if due := f.registry.Due(f.clock.Now(), 1); len(due) != 1 {
		t.Error("it is not tried again")
	}
}

// Of two gangs that are alike, the second one declares a short run time that nobody enforces.
func TestALieAboutTheRunTimeDoesNotJumpTheQueue(t *testing.T) {
	t.Parallel()
	claims := func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationMaxRuntime, "1")
	}
	for name, test := range map[string]struct {
		second func(*corev1.Pod)
		first  string
	}{
		"a lie":                     {claims, "honest"},
		"a promise that is kept":    {runsFor(time.Second), "second"},
		"a lie about a longer time": {func(p *corev1.Pod) { claims(p); p.Spec.ActiveDeadlineSeconds = new(int64(1 << 30)) }, "honest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.withQueues(queue("one", 0, nil), queue("other", 0, nil))
			honest := pod("honest", 8, inQueue("one"), runsFor(2*time.Hour))
			second := pod("second", 8, inQueue("other"), test.second)
			second.CreationTimestamp = metav1.NewTime(beginning.Add(10 * time.Second))
			f.comes(honest, second)
			f.line.Order()
			if first := f.line.Waiting()[0].Leader.Name; first != test.first {
				t.Errorf("%s is first, want %s", first, test.first)
			}
		})
	}
}

func TestTheOrderBetweenQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("owner", 4, nil), queue("guest", 0, nil))
	f.comes(at(pod("runs", 6, inQueue("guest")), "node-0", 0, 1, 2, 3, 4, 5))
	f.comes(
		pod("guest-long", 2, inQueue("guest"), runsFor(24*time.Hour)),
		pod("guest-short", 2, inQueue("guest"), runsFor(time.Minute)),
		pod("guest-first", 2, inQueue("guest"), runsFor(24*time.Hour), prioritized(10)),
		pod("owner-1", 4, inQueue("owner"), runsFor(240*time.Hour)),
		pod("owner-2", 4, inQueue("owner"), runsFor(240*time.Hour)),
	)
	f.line.Order()
	var order []string
	for _, one := range f.line.Waiting() {
		order = append(order, one.Leader.Name)
	}
	// owner-1 fits into a guarantee; owner-2 has the longest work and no guarantee left. Of guest, the one with
	// the highest priority has its queue's first turn.
	if want := "owner-1 guest-first guest-short guest-long owner-2"; strings.Join(order, " ") != want {
		t.Errorf("the order is %v, want %s", order, want)
	}
}

func TestBorrowedGPUsAreTakenBack(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// two is true for two nodes of 8 GPUs, with 8 guaranteed to each queue. Otherwise there is one node,
		// and only the owner is guaranteed 4.
		two     bool
		running []*corev1.Pod
		waits   *corev1.Pod
		want    string // the names of the victims
	}{
		"from Pods of any priority": {
			false, []*corev1.Pod{at(pod("a", 4, inQueue("guest"), prioritized(9)), "node-0", 0, 1, 2, 3), at(pod("b", 4, inQueue("guest")), "node-0", 4, 5, 6, 7)},
			pod("waits", 4, inQueue("owner")), "a",
		},
		"not beyond the own guarantee": {
			false, []*corev1.Pod{at(pod("a", 4, inQueue("guest")), "node-0", 0, 1, 2, 3), at(pod("b", 4, inQueue("guest")), "node-0", 4, 5, 6, 7)},
			pod("waits", 5, inQueue("owner"), prioritized(9)), "",
		},
		"where that makes room, even if others have less work to lose": {
			true, []*corev1.Pod{
				at(pod("a", 4, inQueue("guest"), since(beginning)), "node-0", 0, 1, 2, 3), at(pod("b", 4, inQueue("guest"), since(beginning)), "node-0", 4, 5, 6, 7),
				at(pod("c", 4, inQueue("guest"), since(beginning.Add(-time.Hour))), "node-1", 0, 1, 2, 3),
			},
			pod("waits", 8, inQueue("owner")), "c",
		},
		"by priority in the same queue only": {
			false, []*corev1.Pod{at(pod("a", 4, inQueue("guest")), "node-0", 0, 1, 2, 3), at(pod("b", 4, inQueue("owner")), "node-0", 4, 5, 6, 7)},
			pod("waits", 4, inQueue("owner"), prioritized(9)), "b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			if test.two {
				f.addNode("node-1", "a", 8)
				f.withQueues(queue("owner", 8, nil), queue("guest", 8, nil))
			} else {
				f.withQueues(queue("owner", 4, nil), queue("guest", 0, nil))
			}
			f.comes(append(test.running, test.waits)...)
			if decision := f.decide(test.waits); decision.Node != "" {
				t.Fatalf("it got a place: %+v", decision)
			}
			if names, _ := f.wantVictims(test.waits); strings.Join(names, " ") != test.want {
				t.Errorf("victims: %v, want %q", names, test.want)
			}
		})
	}
}

func TestWhileBorrowedGPUsAreGivenBackTheMessageSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("owner", 4, nil), queue("guest", 0, nil))
	borrows, waits := at(pod("borrows", 8, inQueue("guest")), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), pod("waits", 4, inQueue("owner"))
	f.comes(borrows, waits)
	f.decide(waits)
	f.evictor.Begin("waits", []*corev1.Pod{borrows}, f.evictor.Budgets())
	if got := f.Preempt(t.Context(), waits); got != victimsLeaving {
		t.Errorf("the message is %q, want %q", got, victimsLeaving)
	}
}

func TestWaitingGangsLearnWhenTheyStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	waits, last := pod("waits", 8, runsFor(time.Hour)), pod("waits-longer", 8, runsFor(2*time.Hour))
	for _, one := range []*corev1.Pod{waits, last} {
		if _, err := f.handle.client.CoreV1().Pods("default").Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), waits, last)
	f.decide(waits)
	f.decide(last)
	f.line.Order()
	f.line.EstimateStarts(t.Context(), f.line.State())
	for name, want := range map[string]v1.StartEstimate{
		"waits":        {Likely: metav1.NewTime(beginning.Add(time.Hour)), Queue: "all", Position: 1, Behind: "runs (8 GPUs)"},
		"waits-longer": {Likely: metav1.NewTime(beginning.Add(2 * time.Hour)), Queue: "all", Position: 2, Behind: "runs (8 GPUs)"},
	} {
		got := f.estimateIn(name)
		if !got.Likely.Time.Equal(want.Likely.Time) || got.Queue != want.Queue || got.Position != want.Position || got.Behind != want.Behind {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	f.clock.Step(10 * time.Second)
	f.handle.client.ClearActions()
	f.line.EstimateStarts(t.Context(), f.line.State())
	if actions := f.handle.client.Actions(); len(actions) > 0 {
		t.Errorf("it is written again although nothing has changed: %v", actions)
	}
}

func TestTheWaitOfAPodIsCountedForItsQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("counts-waits", 0, nil))
	f.clock.Step(10 * time.Minute)
	waits := pod("waits", 8)
	f.comes(waits)
	if decision := f.decide(waits); decision.Node == "" {
		t.Fatalf("it gets no place: %+v", decision)
	}
	counted, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "gpu_scheduler_wait_duration_seconds", map[string]string{"queue": "counts-waits"})
	if err != nil {
		t.Fatal(err)
	}
	if counted.GetAggregatedSampleCount() != 1 || counted.GetAggregatedSampleSum() != 600 {
		t.Errorf("counted %d waits of %v seconds together, want one of 600", counted.GetAggregatedSampleCount(), counted.GetAggregatedSampleSum())
	}
}

func TestAnEstimateSaysWhichRunTimeIsAssumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	waits, last := pod("waits", 8), pod("waits-longer", 8)
	for _, one := range []*corev1.Pod{waits, last} {
		if _, err := f.handle.client.CoreV1().Pods("default").Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.comes(at(pod("runs", 8, since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), waits, last)
	f.decide(waits)
	f.decide(last)
	f.line.Order()
	f.line.EstimateStarts(t.Context(), f.line.State())
	for name, want := range map[string]string{"waits": "runs (8 GPUs)", "waits-longer": "waits (8 GPUs)"} {
		got := f.estimateIn(name)
		if got.Behind != "runs (8 GPUs)" || got.AssumedFor != want || got.AssumedRuntimeSeconds != 4*3600 || got.Rough {
			t.Errorf("%s: %+v, want it to assume the run time of %s", name, got, want)
		}
	}
}

// A gang for both nodes waits, and a small one behind it that ends before both are free.
func TestAnEstimateSaysWhoMayStartBeforeThoseAheadOfIt(t *testing.T) {
	t.Parallel()
	large := []*corev1.Pod{pod("large-0", 8, in("large", 2, 0), runsFor(time.Hour)), pod("large-1", 8, in("large", 2, 1), runsFor(time.Hour))}
	small, long := pod("small", 8, runsFor(time.Hour)), pod("long", 8, runsFor(10*time.Hour))
	f := newFixture(t, large[0], small, long)
	for i, name := range []string{"a", "b"} {
		f.addNode(name, "l", 8)
		f.comes(at(pod("runs-"+name, 8, runsFor(time.Duration(1+3*i)*time.Hour), since(beginning)), name, 0, 1, 2, 3, 4, 5, 6, 7))
	}
	f.withQueues(queue("all", 0, nil))
	f.comes(append(large, small, long)...)
	for _, one := range []*corev1.Pod{large[0], small, long} {
		f.decide(one)
	}
	f.line.Order()
	f.line.EstimateStarts(t.Context(), f.line.State())
	for name, want := range map[string]v1.StartEstimate{
		"large-0": {Likely: metav1.NewTime(beginning.Add(4 * time.Hour)), Behind: "runs-b (8 GPUs)"},
		"small":   {Likely: metav1.NewTime(beginning.Add(time.Hour)), Behind: "runs-a (8 GPUs)", Backfill: true},
		"long":    {Likely: metav1.NewTime(beginning.Add(5 * time.Hour)), Behind: "runs-b (8 GPUs)"},
	} {
		got := f.estimateIn(name)
		if !got.Likely.Time.Equal(want.Likely.Time) || got.Behind != want.Behind || got.Backfill != want.Backfill {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// estimateIn returns the estimate that was written into a Pod.
func (f *fixture) estimateIn(name string) (estimate v1.StartEstimate) {
	f.t.Helper()
	pod, err := f.handle.client.CoreV1().Pods("default").Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(pod.Annotations[v1.AnnotationStartEstimate]), &estimate); err != nil {
		f.t.Fatal(err)
	}
	return estimate
}
