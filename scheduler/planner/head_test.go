// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

func withVolumeClaim(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "misspelt"},
	}}}
}

func beside(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname,
		}}}}
	}
}

func onModel(model string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelGPUModel: model} }
}

// One node is free and one is in use for an hour: neither is kept for who can't start there.
func TestNothingIsBookedForWorkThatTheFiltersWouldNotLetStart(t *testing.T) {
	t.Parallel()
	for name, never := range map[string]func(*corev1.Pod){
		"no node takes it": withVolumeClaim,
		"each refuses it":  beside("nobody"),
		"its port is taken": func(p *corev1.Pod) {
			withHostPort(p)
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "free"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "busy")
			keepsPort := at(pod("keeps-port", 0, withHostPort), "free")
			f := newFramed(t, []*corev1.Node{nodeWithGPUs("free", "4"), nodeWithGPUs("busy", "4")}, []*corev1.Pod{runs, keepsPort})
			f.withQueues(queue("all", 0, nil))
			lost, other := pod("lost", 4, never), pod("other", 1, later(1), runsFor(100*time.Hour))
			f.comes(lost)
			f.decide(lost)
			f.line.Order()
			f.comes(other)
			for range 3 {
				f.clock.Step(2 * time.Second)
				f.line.Order()
				f.line.LookAhead()
				if r, booked := f.line.Booking("lost"); booked {
					t.Errorf("%d GPUs are booked for it on node %s", len(r.Plan.Members[0].GPUs), r.Plan.Members[0].Node)
				}
			}
			if decision := f.decide(other); decision.Node != "free" {
				t.Errorf("the other one got node %q: %s", decision.Node, decision.Waits)
			}
		})
	}
}

// The gang could start on either node as far as GPUs are concerned, and later on the one that is free first.
func TestABookingIsMadeWhereTheFiltersAgree(t *testing.T) {
	t.Parallel()
	first := at(pod("first", 4, runsFor(time.Hour), since(beginning)), "a")
	second := at(pod("second", 4, runsFor(2*time.Hour), since(beginning)), "b")
	server := at(pod("server", 0, func(p *corev1.Pod) { p.Labels["app"] = "server" }), "b")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "4"), nodeWithGPUs("b", "4")}, []*corev1.Pod{first, second, server})
	f.withQueues(queue("all", 0, nil))
	client := pod("client", 4, beside("server"))
	f.comes(client)
	f.decide(client)
	f.line.Order()
	f.clock.Step(2 * time.Second)
	f.line.LookAhead()
	r, booked := f.line.Booking("client")
	if !booked || r.Plan.Members[0].Node != "b" || !r.From.Equal(beginning.Add(2*time.Hour)) {
		t.Errorf("the booking is %+v (%t), want node b from when the second one ends", r, booked)
	}
}

// The time is up when the filters have been asked about one Pod of two.
func TestPlacesThatTheFiltersHadNoTimeToLookAtAreNotTakenForAgreed(t *testing.T) {
	t.Parallel()
	first := at(pod("first", 4, runsFor(time.Hour), since(beginning)), "a")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "4")}, []*corev1.Pod{first})
	f.withQueues(queue("all", 0, nil))
	pods := gang("train", 2, 2, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[v1.ResourceGPU] = resource.MustParse("2") })
	f.comes(pods...)
	f.decide(pods[0])
	f.line.Order()
	f.clock.Step(2 * time.Second)
	asked := 0
	f.filters.Serve(ours, &asking{Runner: f.framework, do: func() { asked++; f.clock.Step(2 * filters.UsualSearch) }})
	f.line.LookAhead()
	if _, booked := f.line.Booking("default/train"); asked == 0 || booked {
		t.Errorf("places are booked (%t) although the filters were asked only %d times", booked, asked)
	}
	asked = 0
	f.filters.Serve(ours, &asking{Runner: f.framework, do: func() { asked++ }})
	f.clock.Step(10 * time.Minute)
	f.line.Order()
	f.line.LookAhead()
	if _, booked := f.line.Booking("default/train"); asked == 0 || !booked {
		t.Errorf("the filters were asked %d times when there was time; places are booked: %t", asked, booked)
	}
}

// A node of each model is in use; twelve Pods wait for one of them, before the one that waits for the other.
func TestABacklogOfOneModelTakesNoBookingFromAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, model := range []string{"h100", "l40s"} {
		f.addNode(model, "l", 8)
		f.change(model, func(node *corev1.Node) { node.Labels[v1.LabelGPUModel] = model })
	}
	f.withQueues(queue("all", 0, nil))
	f.args.QueuePolicy = "fifo"
	f.comes(at(pod("runs-h", 8, runsFor(100*time.Hour), since(beginning)), "h100", 0, 1, 2, 3, 4, 5, 6, 7))
	f.comes(at(pod("runs-l", 1, runsFor(time.Hour), since(beginning)), "l40s", 0))
	var waiting []*corev1.Pod
	for i := range 12 {
		waiting = append(waiting, pod(fmt.Sprintf("h-%02d", i), 8, onModel("h100"), runsFor(10*time.Hour), later(i)))
	}
	whole := pod("whole", 8, onModel("l40s"), runsFor(time.Hour), later(20))
	waiting = append(waiting, whole)
	f.comes(waiting...)
	for range 2 {
		for _, one := range waiting {
			f.decide(one)
		}
		f.line.Order()
		f.clock.Step(time.Minute)
	}
	f.line.LookAhead()
	if _, booked := f.line.Booking("whole"); !booked {
		t.Error("it has no booking")
	}
	if _, booked := f.line.Booking("h-07"); !booked {
		t.Error("the eighth one of the other model has no booking")
	}
	if _, booked := f.line.Booking("h-08"); booked {
		t.Error("the ninth one of the other model has a booking")
	}
	small := pod("small", 1, onModel("l40s"), runsFor(50*time.Hour), later(60))
	f.comes(small)
	f.line.Order()
	if decision := f.decide(small); decision.Node != "" {
		t.Error("one that runs for longer gets a GPU that it needs")
	}
}

// The message tells the owner what is true: no GPU that becomes free helps, as those that are free are kept for
// another.
func TestGPUsThatAreKeptForOthersAreNoRemedy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	runs := at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3)
	large, small := pod("large", 8, runsFor(time.Hour)), pod("small", 1, later(1))
	f.comes(runs, large)
	f.decide(large)
	f.line.Order()
	f.clock.Step(time.Minute)
	f.comes(small)
	waits := f.decide(small).Waits
	if strings.Contains(waits, "more free GPU") || !strings.Contains(waits, "GPUs that are free are kept for work whose turn comes first") {
		t.Errorf("the message is %q", waits)
	}
	medium := pod("medium", 6, later(2)) // some of the GPUs that it needs are kept, and others in use
	f.comes(medium)
	if waits = f.decide(medium).Waits; !strings.Contains(waits, "6 more free GPUs") || strings.Contains(waits, "are kept") {
		t.Errorf("the message for GPUs that are in use is %q", waits)
	}
}

// Two nodes are in use for an hour, and booked for a gang each. The filters are asked about the places while one of the
// gangs is deleted.
func TestNothingIsBookedForAGangThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	onNode := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
	}
	runsOnA, runsOnB := at(pod("runs-a", 4, runsFor(time.Hour), since(beginning)), "a"), at(pod("runs-b", 4, runsFor(time.Hour), since(beginning)), "b")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "4"), nodeWithGPUs("b", "4")}, []*corev1.Pod{runsOnA, runsOnB})
	f.withQueues(queue("all", 0, nil))
	goes, stays := pod("goes", 4, onNode("a"), cpus("6")), pod("stays", 4, onNode("b"), cpus("6"))
	f.comes(goes, stays)
	f.decide(goes)
	f.decide(stays)
	f.line.Order()
	f.clock.Step(2 * time.Second)
	gone := false
	f.filters.Serve(ours, &asking{Runner: f.framework, do: func() {
		if !gone {
			gone = true
			f.goes(goes)
		}
	}})
	f.line.LookAhead()
	if _, booked := f.line.Booking("goes"); !gone || booked {
		t.Errorf("places are booked for a gang that is deleted: %t, %t", gone, booked)
	}
	if _, booked := f.line.Booking("stays"); !booked {
		t.Error("no places are booked for the other one")
	}
	if rooms := f.line.Rooms(leastImportant); !rooms["a"].IsZero() || rooms["b"].IsZero() {
		t.Errorf("withheld on the nodes is %+v", rooms)
	}
}

func TestNothingIsWithheldForABookingThatHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.withQueues(queue("all", 0, nil))
	var large []*corev1.Pod
	for i, node := range []string{"node-0", "node-1"} {
		f.addNode(node, "a", 8)
		f.comes(at(pod("runs-"+node, 4, runsFor(10*time.Hour), since(beginning)), node, 0, 1, 2, 3))
		large = append(large, pod(fmt.Sprint("large-", i), 8, runsFor(100*time.Hour), cpus("10"), later(i)))
	}
	f.comes(large...)
	f.decide(large[0])
	f.decide(large[1])
	f.line.Order()
	f.clock.Step(time.Minute)
	f.refresh(f.nodes())
	f.line.LookAhead()
	if rooms := f.line.Rooms(leastImportant); rooms["node-0"].CPU != 9000 || rooms["node-1"].CPU != 9000 {
		t.Fatalf("withheld on the nodes is %+v", rooms)
	}
	kept, booked := f.line.Booking("large-1")
	if f.goes(large[0]); !booked {
		t.Fatal("nothing is booked")
	}
	if rooms := f.line.Rooms(leastImportant); len(rooms) != 1 || rooms[kept.Plan.Members[0].Node].CPU != 9000 {
		t.Errorf("when one gang is deleted, withheld is %+v, want what the other one needs", rooms)
	}
	if f.goes(large[1]); len(f.line.Rooms(leastImportant)) > 0 {
		t.Errorf("when the other one is deleted as well, withheld is %+v", f.line.Rooms(leastImportant))
	}
}

// A Pod without GPUs may be tried before the gang is.
func TestWhatAPodLeavesToABookingIsWithheldAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 8)
	runs := at(pod("runs", 4, runsFor(time.Hour), since(beginning)), "a", 0, 1, 2, 3)
	big := pod("big", 8, cpus("10"))
	f.comes(runs, big)
	f.waitInLine(big)
	f.wantBooked("when it waits", "big: a")
	if rooms := f.line.Rooms(leastImportant); rooms["a"].CPU != 9000 {
		t.Errorf("while the other one runs, withheld is %+v, want 9 CPUs", rooms)
	}
	f.goes(runs)
	f.refresh(f.nodes())
	if rooms := f.line.Rooms(leastImportant); rooms["a"].CPU != 10000 {
		t.Errorf("when the other one has left, withheld is %+v, want 10 CPUs", rooms)
	}
}

func TestWhoWaitsForABookingIsWokenWhenItEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, large, runs *corev1.Pod){
		"its gang is deleted": func(f *fixture, large, _ *corev1.Pod) { f.goes(large) },
		"its gang gets a place elsewhere": func(f *fixture, large, _ *corev1.Pod) {
			f.addNode("node-1", "a", 8)
			f.decide(large)
		},
		"it moves to a later time": func(f *fixture, _, runs *corev1.Pod) {
			runs = runs.DeepCopy()
			runs.Annotations[v1.AnnotationMaxRuntime] = "360000"
			f.infos["node-0"].SetNode(f.infos["node-0"].Node())
			if err := f.infos["node-0"].RemovePod(f.logger, runs); err != nil {
				f.t.Fatal(err)
			}
			f.infos["node-0"].AddPod(runs)
			f.refresh(f.nodes())
			f.line.LookAhead()
		},
	}
	for name, ends := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.withQueues(queue("all", 0, nil))
			runs := at(pod("runs", 4, runsFor(10*time.Hour), since(beginning)), "node-0", 0, 1, 2, 3)
			large, small := pod("large", 8, runsFor(100*time.Hour)), pod("small", 4, runsFor(50*time.Hour), later(1))
			f.comes(runs, large)
			f.decide(large)
			f.line.Order()
			f.clock.Step(time.Minute)
			f.comes(small)
			f.line.Order()
			if decision := f.decide(small); decision.Node != "" {
				t.Fatalf("it is placed on what is booked: %+v", decision)
			}
			f.clock.Step(10 * time.Second)
			f.handle.takeActivated()
			f.line.Order()
			f.activateDue()
			if slices.Contains(f.handle.takeActivated(), "small") {
				t.Fatal("it is tried again although nothing has happened")
			}
			ends(f, large, runs)
			f.clock.Step(2 * shortestPause)
			f.line.Order()
			f.activateDue()
			if !slices.Contains(f.handle.takeActivated(), "small") {
				t.Error("it is not tried again")
			}
		})
	}
}
