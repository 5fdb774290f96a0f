// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/leadership"
)

// inLine returns the names of those that wait in their order.
func (f *fixture) inLine() string {
	f.line.Order()
	var names []string
	for _, one := range f.line.Waiting() {
		names = append(names, one.Leader.Name)
	}
	return strings.Join(names, " ")
}

// fullNode adds node a, in use until an hour after the beginning.
func (f *fixture) fullNode() {
	f.t.Helper()
	f.addNode("a", "l", 4)
	f.comes(at(pod("runs-a", 4, runsFor(time.Hour), since(beginning)), "a", 0, 1, 2, 3))
}

// A Pod that no node is large enough for comes first by its priority, until it is known that it would never fit.
func TestWhatNeverFitsIsNotInTheLine(t *testing.T) {
	t.Parallel()
	waits := pod("waits", 4, runsFor(time.Hour))
	f := newFixture(t, waits)
	f.withQueues(queue("all", 0, nil))
	f.fullNode()
	never := pod("never", 6, prioritized(9), runsFor(time.Hour))
	f.comes(never, waits)
	if got := f.inLine(); got != "never waits" {
		t.Errorf("before it was tried: %s", got)
	}
	f.decide(never)
	f.decide(waits)
	if got := f.inLine(); got != "waits" {
		t.Errorf("once it is known: %s", got)
	}
	f.clock.Step(time.Minute)
	f.decide(waits)
	f.line.EstimateStarts(t.Context(), f.line.State())
	if got := f.estimateIn("waits"); got.Position != 1 || !got.Likely.Time.Equal(beginning.Add(time.Hour)) || got.Backfill {
		t.Errorf("the estimate of the one behind it is %+v", got)
	}
	for _, booking := range f.line.Bookings() {
		if booking.Key != "waits" {
			t.Errorf("%s has a booking", booking.Key)
		}
	}
	f.change("a", func(node *corev1.Node) { node.Labels["changed"] = "yes" })
	if got := f.inLine(); got != "never waits" {
		t.Errorf("when a node has changed: %s", got)
	}
	f.clock.Step(time.Minute)
	f.decide(never)
	if got := f.inLine(); got != "waits" {
		t.Errorf("when it was tried again: %s", got)
	}
}

// TestWhatNeverFittedGetsTheFirstNodeThatIsLargeEnough: others that come after it would fit there as well, and all are
// tried again before there is a new order.
func TestWhatNeverFittedGetsTheFirstNodeThatIsLargeEnough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withQueues(queue("all", 0, nil))
	f.fullNode()
	first, never, last := pod("first", 4, prioritized(9)), pod("never", 6, prioritized(5)), pod("last", 4)
	f.comes(last, never, first)
	for _, one := range []*corev1.Pod{last, never, first} {
		f.decide(one)
	}
	if got := f.inLine(); got != "first last" {
		t.Fatalf("the line is %s", got)
	}
	f.clock.Step(time.Minute)
	f.addNode("b", "l", 10)
	f.nodeUpdated(nil, f.infos["b"].Node())
	var due []string
	for _, one := range f.registry.Due(f.clock.Now(), 10) {
		due = append(due, one.Name)
	}
	if want := []string{"first", "never", "last"}; !slices.Equal(due, want) {
		t.Fatalf("due are %v, want %v", due, want)
	}
	for _, one := range []*corev1.Pod{first, never} {
		if decision := f.decide(one); decision.Node != "b" {
			t.Errorf("%s: %+v", one.Name, decision)
		}
	}
}

// earlierEstimate is what an earlier process has written.
func earlierEstimate(p *corev1.Pod) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationStartEstimate,
		`{"earliest":"2026-11-21T12:30:00Z","likely":"2026-11-21T12:40:00Z","latest":"2026-11-21T12:50:00Z","position":1,"reserved":true}`)
}

func TestWhatWaitsForSomethingElseThanRoomHasNoEstimate(t *testing.T) {
	t.Parallel()
	limited, unlimited := queue("all", 0, new(int32(4))), queue("all", 0, nil)
	tests := map[string]struct {
		queues []*v1.GPUQueue
		pod    *corev1.Pod
		// inLine is true if it keeps its position.
		inLine bool
		ends   func(f *fixture, pod *corev1.Pod)
	}{
		"its queue is at its limit": {[]*v1.GPUQueue{limited}, pod("waits", 4, earlierEstimate), true, func(f *fixture, _ *corev1.Pod) { f.withQueues(unlimited) }},
		"its queue does not exist": {[]*v1.GPUQueue{unlimited}, pod("waits", 4, earlierEstimate, inQueue("none")), false, func(f *fixture, _ *corev1.Pod) {
			f.withQueues(unlimited, queue("none", 0, nil))
		}},
		"what it demands is invalid": {nil, pod("waits", 4, earlierEstimate, inALevelThatIsUnknown), true, func(f *fixture, pod *corev1.Pod) {
			changed := pod.DeepCopy()
			changed.ResourceVersion = "changed"
			delete(changed.Annotations, v1.AnnotationTopologyLevel)
			f.podUpdated(pod, changed)
		}},
		"it would never fit": {nil, pod("waits", 6, earlierEstimate), false, func(f *fixture, _ *corev1.Pod) {
			f.addNode("b", "l", 6)
			f.comes(at(pod("runs", 6, runsFor(2*time.Hour), since(beginning)), "b", 0, 1, 2, 3, 4, 5))
			f.nodeUpdated(nil, f.infos["b"].Node())
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pod)
			f.withQueues(test.queues...)
			f.fullNode()
			f.comes(test.pod)
			f.wantNoEstimate(test.pod, test.inLine)
			test.ends(f, test.pod)
			f.clock.Step(2 * time.Minute)
			f.wantEstimate(test.pod)
		})
	}
}

func TestAGangThatIsIncompleteHasNoEstimateAnyMore(t *testing.T) {
	t.Parallel()
	first, second := pod("waits-0", 2, in("waits", 2, 0)), pod("waits-1", 2, in("waits", 2, 1))
	f := newFixture(t, first, second)
	f.withQueues(queue("all", 0, nil))
	f.fullNode()
	f.comes(first, second)
	f.wantEstimate(first)
	f.goes(second)
	f.line.Order()
	f.line.EstimateStarts(t.Context(), f.line.State())
	if estimate := gputask.StartEstimateOf(f.live(first)); estimate != nil {
		t.Errorf("it has the estimate %+v", estimate)
	}
}

func TestNothingIsWrittenAboutTheEstimateOfAPodThatIsGone(t *testing.T) {
	t.Parallel()
	waits := pod("waits", 4)
	f := newFixture(t, waits)
	f.withQueues(queue("all", 0, nil))
	f.fullNode()
	f.comes(waits)
	f.wantEstimate(waits)
	f.goes(waits)
	f.line.Order()
	f.handle.client.ClearActions()
	f.line.EstimateStarts(t.Context(), f.line.State())
	for _, action := range f.handle.client.Actions() {
		if action.GetVerb() == "patch" {
			t.Errorf("something is written: %v", action)
		}
	}
}

// wantNoEstimate demands that a Pod that is tried has neither an estimate nor a booking.
func (f *fixture) wantNoEstimate(pod *corev1.Pod, served bool) {
	f.t.Helper()
	f.decide(pod)
	if inLine := f.inLine() != ""; inLine != served {
		f.t.Errorf("it is in the line: %t", inLine)
	}
	f.clock.Step(2 * time.Second)
	f.decide(pod)
	f.line.EstimateStarts(f.t.Context(), f.line.State())
	if estimate := gputask.StartEstimateOf(f.live(pod)); estimate != nil {
		f.t.Errorf("it has the estimate %+v", estimate)
	}
	if _, booked := f.line.Booking(pod.Name); booked {
		f.t.Error("it has a booking")
	}
	f.handle.client.ClearActions()
	f.line.EstimateStarts(f.t.Context(), f.line.State())
	for _, action := range f.handle.client.Actions() {
		if action.GetVerb() == "patch" && served {
			f.t.Errorf("that it has none is written again: %v", action)
		}
	}
}

func (f *fixture) wantEstimate(pod *corev1.Pod) {
	f.t.Helper()
	f.decide(pod)
	f.line.Order()
	f.line.EstimateStarts(f.t.Context(), f.line.State())
	if estimate := gputask.StartEstimateOf(f.live(pod)); estimate == nil || estimate.Likely.Time.Before(beginning.Add(time.Hour)) {
		f.t.Errorf("it has the estimate %+v", estimate)
	}
}

// One node has room and refuses it: its port is taken. The other one is in use for an hour.
func TestWhomNodesWithRoomRefuseNeedsABookingForAnEstimate(t *testing.T) {
	for name, test := range map[string]struct {
		ports []string
		check func(f *fixture, pod *corev1.Pod)
	}{
		"the other one takes it": {[]string{"b"}, func(f *fixture, pod *corev1.Pod) {
			f.waitInLine(pod)
			f.wantEstimate(pod)
		}},
		"the other one refuses it, too": {[]string{"a", "b"}, func(f *fixture, pod *corev1.Pod) {
			f.waitInLine(pod)
			f.wantNoEstimate(pod, true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			running := []*corev1.Pod{at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "a")}
			for _, node := range test.ports {
				running = append(running, at(pod("server-"+node, 0, withHostPort), node))
			}
			waits := pod("waits", 4, earlierEstimate, withHostPort)
			f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "4"), nodeWithGPUs("b", "4")}, running, waits)
			f.comes(waits)
			test.check(f.fixture, waits)
		})
	}
}

// The only node has room for the first one, which needs a port that is taken there: nobody waits behind it.
func TestWhomAllNodesRefuseIsAheadOfNobody(t *testing.T) {
	running := at(pod("server", 4, runsFor(time.Hour), since(beginning), withHostPort), "a")
	refused, waits := pod("refused", 4, prioritized(1), withHostPort), pod("waits", 8)
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "8")}, []*corev1.Pod{running}, refused, waits)
	f.comes(refused, waits)
	f.decide(refused)
	f.waitInLine(waits)
	f.wantEstimate(waits)
	if got := f.estimateIn("waits").Position; got != 1 {
		t.Errorf("it has position %d, want 1", got)
	}
}

func TestWhoseClaimsAreNotReadyHasNoEstimate(t *testing.T) {
	t.Parallel()
	waits := pod("waits", 1, earlierEstimate, in("waits", 1, 0))
	waits.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	f := newFixture(t, waits)
	f.addNode("a", "l", 4)
	f.handle.claims = noClaims{}
	f.begins(leadership.Always())
	if _, err := f.devices.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.comes(waits)
	f.wantNoEstimate(waits, true)
}

func TestOnlyWhoseVolumeExistsHasAnEstimate(t *testing.T) {
	volume, claim := volumeIn("y")
	node := nodeWithGPUs("a", "4")
	node.Labels[zoneLabel] = "y"
	waits := pod("waits", 4, earlierEstimate)
	waits.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "y"},
	}}}
	for name, test := range map[string]struct {
		objects []runtime.Object
		check   func(f *fixture, pod *corev1.Pod)
	}{
		"the claim exists":         {[]runtime.Object{volume, claim, waits}, (*fixture).wantEstimate},
		"the claim does not exist": {[]runtime.Object{volume, waits}, func(f *fixture, pod *corev1.Pod) { f.wantNoEstimate(pod, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFramed(t, []*corev1.Node{node.DeepCopy()}, []*corev1.Pod{at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "a")}, test.objects...)
			f.comes(waits)
			test.check(f.fixture, waits)
		})
	}
}
