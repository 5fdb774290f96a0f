// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// moving is a load that crosses the edge between two buckets of free memory all
// the time, within the hysteresis.
const moving = "count: 8\nload: {utilization: {low: 0, high: 1}, memory: {low: 0.46, high: 0.53}}"

func TestAMovingLoadCausesNoWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	recorder := record.NewFakeRecorder(100)
	events := NewEventWriter(f.config, recorder)
	for range 1000 {
		f.polls(1)
		events.Write()
	}
	f.expectWrites(1)
	f.expectLabel("falldio.com/gpu-health", "Healthy")
	if len(recorder.Events) != 0 {
		t.Errorf("there were %d Events, the first: %s", len(recorder.Events), <-recorder.Events)
	}
}

func TestFreeMemoryWaitsForTheInterval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "load: {period: 2m, memory: {low: 0, high: 1}}")
	const polls = 720 // an hour
	f.polls(polls)
	if most := polls * int(pollEvery) / int(interval); f.api.writes > most+1 || f.api.writes < 2 {
		t.Errorf("%d writes in an hour, want at most one in each of %d minutes, and some", f.api.writes, most)
	}
}

func TestHealthDoesNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	f.expectWrites(1)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.polls(1)
	f.expectWrites(2)
	f.expectLabel("falldio.com/gpu-health", "Degraded")
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Recovered})
	f.polls(30)
	f.expectWrites(3)
	f.expectLabel("falldio.com/gpu-health", "Healthy")
}

func TestGPUsThatVanishLoseTheirLabels(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed})
	f.polls(2)
	f.expectLabel("falldio.com/gpu-count", "7")
	f.inject(simulation.Fault{Fault: simulation.Removed})
	f.polls(2)
	if len(f.api.node.Labels) != 1 || f.api.node.Labels["kubernetes.io/os"] != "linux" {
		t.Errorf("the labels of a node without GPUs are %v", f.api.node.Labels)
	}
	if text := f.api.node.Annotations[inventory.Annotation]; text != "" {
		t.Errorf("the inventory is still there: %s", text)
	}
}

func TestWhatOthersBreakIsRepairedButNotFoughtOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	for range 20 {
		f.edit(func(node *metav1.PartialObjectMetadata) { node.Labels["falldio.com/gpu"] = "wrong" })
		f.polls(1)
	}
	if f.api.writes > 3 {
		t.Errorf("%d writes against another client that insists, in 100 seconds", f.api.writes)
	}
	f.clock.Step(2 * interval)
	f.polls(1)
	f.expectLabel("falldio.com/gpu", "h100-80gb-hbm3")
}

func TestARecreatedNodeIsLabelledAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	f.view.See(nil)
	f.polls(1)
	f.expectWrites(1)
	f.api.applied = nil
	f.edit(func(node *metav1.PartialObjectMetadata) {
		node.UID, node.Labels, node.Annotations = "uid-2", map[string]string{}, nil
	})
	f.polls(1)
	f.expectWrites(2)
	f.expectLabel("falldio.com/gpu-count", "8")
}

func TestLabelsOfOthersThatCannotBeRemovedAreLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "count: 0")
	f.edit(func(node *metav1.PartialObjectMetadata) { node.Labels["falldio.com/gpu"] = "by-hand" })
	f.polls(500)
	f.expectWrites(1)
	f.expectLabel("falldio.com/gpu", "by-hand")
}

func TestFailedWritesAreRepeatedMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.api.fail = errors.New("overloaded")
	f.polls(720)
	if f.api.writes < 5 || f.api.writes > 60 {
		t.Errorf("%d attempts in an hour", f.api.writes)
	}
	if _, failed := f.publisher.Writes(); int(failed) != f.api.writes {
		t.Errorf("%d of %d failures were counted", failed, f.api.writes)
	}
	f.api.fail = nil
	f.clock.Step(time.Hour)
	f.polls(1)
	f.expectLabel("falldio.com/gpu-count", "8")
}

func TestANewAgentWritesNothingIfNothingChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	f.watch()
	f.publisher = New(f.config)
	f.polls(10)
	f.expectWrites(1)
}

// whileReading is a Source during whose reads something is done.
type whileReading struct {
	gpu.Source
	mu sync.Mutex
	do func()
}

func (s *whileReading) Read(uuid string) (gpu.Sample, error) {
	s.mu.Lock()
	s.do()
	s.mu.Unlock()
	return s.Source.Read(uuid)
}

func TestARestartWritesNothingBeforeTheGPUsWereRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	f.monitor = monitor.New(monitor.Config{
		Source: &whileReading{Source: f.source, do: func() { f.publisher.Publish(t.Context()) }},
		Clock:  f.clock, Policy: health.DefaultPolicy(), Deadline: time.Second,
	})
	f.config.GPUs = f.monitor
	f.publisher = New(f.config)
	f.polls(3)
	f.expectWrites(1)
}

func TestNothingIsPublishedBeforeThePoll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.publisher.Publish(t.Context())
	f.expectWrites(0)
}

func TestCleanUpTakesEverythingAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.polls(1)
	if err := f.publisher.CleanUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.api.node.Labels) != 1 || len(f.api.node.Annotations) != 0 {
		t.Errorf("still there: %v %v", f.api.node.Labels, f.api.node.Annotations)
	}
}

func TestFaultsSurviveInTheAnnotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.Lost})
	f.polls(1)
	histories, err := f.view.Histories()
	if err != nil {
		t.Fatal(err)
	}
	if fault := histories[simulation.UUID(nodeName, 2)].Fault; len(histories) != 1 || fault == nil || fault.Reason != "Lost" {
		t.Errorf("the annotation has %v", histories)
	}
	f.edit(func(node *metav1.PartialObjectMetadata) { node.Annotations[inventory.Annotation] = "{" })
	if _, err := f.view.Histories(); err == nil {
		t.Error("an annotation that can't be read is no error")
	}
}

func TestThatThereIsNoDriverIsNoFaultOfAGPU(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.edit(func(node *metav1.PartialObjectMetadata) {
		node.Annotations = map[string]string{inventory.Annotation: `{"version":"v1","gpus":[` +
			`{"uuid":"GPU-a","health":"Unhealthy","fault":{"reason":"NoDriver","since":"2026-11-21T12:00:00Z"}},` +
			`{"uuid":"GPU-b","health":"Unhealthy","fault":{"reason":"Lost","since":"2026-11-21T12:00:00Z"}}]}`}
	})
	histories, err := f.view.Histories()
	if err != nil || len(histories) != 1 || histories["GPU-b"].Fault == nil {
		t.Errorf("the annotation has %v, error %v", histories, err)
	}
}

func TestWithoutTheAnnotationThereAreNoFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.Lost})
	f.polls(1)
	f.edit(func(node *metav1.PartialObjectMetadata) { delete(node.Annotations, inventory.Annotation) })
	if histories, err := f.view.Histories(); len(histories) != 0 || err != nil {
		t.Errorf("the Node has %v, error %v", histories, err)
	}
}

// restart restarts the agent.
func (f *fixture) restart() {
	f.Helper()
	histories, err := f.view.Histories()
	if err != nil {
		f.Fatal(err)
	}
	f.monitor = monitor.New(monitor.Config{Source: f.source, Clock: f.clock, Policy: health.DefaultPolicy(), BootID: "boot", Deadline: time.Second})
	f.monitor.Restore(histories)
	f.config.GPUs = f.monitor
	f.publisher = New(f.config)
}

func TestAResetBetweenTwoLivesIsRecognised(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	f.restart()
	f.polls(1)
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.ECC})
	f.polls(100)
	f.restart() // alone it is no reset
	f.polls(100)
	f.expectWrites(2)
	if fault := f.monitor.Snapshot().Devices[2].Fault; fault == nil || !fault.NeedsReset {
		t.Fatalf("the fault is %+v", fault)
	}
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.Recovered})
	f.restart()
	f.polls(1)
	f.expectWrites(3)
	if fault := f.monitor.Snapshot().Devices[2].Fault; fault == nil || fault.NeedsReset {
		t.Errorf("the fault is %+v", fault)
	}
	f.polls(100)
	f.expectLabel("falldio.com/gpu-health", "Healthy")
}

func TestAdoptFault(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	fault := func(since time.Time, boot string, energy float64) inventory.Fault {
		return inventory.Fault{Reason: "ECC", Since: since, NeedsReset: true, BootID: boot, ResetCounters: map[string]float64{"energy": energy}}
	}
	afterReset := inventory.Fault{Reason: "ECC", Since: late}
	tests := map[string]struct{ ours, theirs, want inventory.Fault }{
		"what was noticed first stays":                {fault(late, "b", 200), fault(early, "b", 100), fault(early, "b", 100)},
		"and is not corrected by what came later":     {fault(early, "b", 100), fault(late, "b", 200), fault(early, "b", 100)},
		"a need that another boot has ended is over":  {fault(late, "c", 10), fault(early, "b", 200), fault(early, "c", 10)},
		"a reset that was seen is not forgotten":      {afterReset, fault(early, "b", 100), inventory.Fault{Reason: "ECC", Since: early}},
		"a need for a reset that is new is published": {fault(late, "b", 100), afterReset, fault(late, "b", 100)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.ours
			adoptFault(&got, &test.theirs)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fault (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwoAgentsAgreeOnAFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	other := monitor.New(monitor.Config{
		Source: simulation.New(simulation.Default(), nodeName, f.clock),
		Clock:  f.clock, Policy: health.DefaultPolicy(), Deadline: time.Second,
	})
	config := f.config
	config.GPUs = lostGPU{other, 3}
	second := New(config)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	for range 240 { // twenty minutes
		f.polls(1)
		other.Poll(t.Context())
		second.Publish(t.Context())
	}
	if f.api.writes > 2 {
		t.Errorf("%d writes in twenty minutes in which nothing changed", f.api.writes)
	}
}

// lostGPU is the GPUs of an agent that has noticed a loss a minute after the
// other one.
type lostGPU struct {
	*monitor.Monitor
	index int
}

func (l lostGPU) Snapshot() *gpu.Snapshot {
	snapshot := *l.Monitor.Snapshot()
	snapshot.Devices = slices.Clone(snapshot.Devices)
	if len(snapshot.Devices) > l.index {
		snapshot.Devices[l.index].Fault = &gpu.Fault{Reason: health.ReasonLost, Since: time.Unix(1_700_000_060, 0)}
	}
	return &snapshot
}

func TestNewsOfHealthWaitNotLongForAnAPIServerThatFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "load: {period: 2m, memory: {low: 0, high: 1}}")
	f.polls(1)
	f.api.fail = errors.New("overloaded")
	f.polls(100)
	for attempts := f.api.writes; f.api.writes == attempts; {
		f.polls(1)
	}
	attempts := f.api.writes
	f.polls(5)
	if f.api.writes != attempts {
		t.Fatal("there is no waiting time to cut short")
	}
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.polls(3)
	f.api.fail = nil
	f.polls(2)
	f.expectLabel("falldio.com/gpu-health", "Degraded")
}

func TestEventsTellOfHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	recorder := record.NewFakeRecorder(100)
	events := NewEventWriter(f.config, recorder)
	expect := func(reasons ...string) {
		t.Helper()
		for _, reason := range reasons {
			select {
			case event := <-recorder.Events:
				if !strings.Contains(event, reason) {
					t.Errorf("the Event is %q, want %s", event, reason)
				}
			default:
				t.Errorf("there is no Event %s", reason)
			}
		}
		if len(recorder.Events) > 0 {
			t.Errorf("there is another Event: %s", <-recorder.Events)
		}
	}
	f.polls(1)
	events.Write()
	expect()
	f.inject(simulation.Fault{GPU: new(1), Fault: simulation.Lost})
	f.polls(1)
	events.Write()
	expect(ReasonUnhealthy)
	f.inject(simulation.Fault{GPU: new(1), Fault: simulation.Recovered})
	f.polls(30)
	events.Write()
	expect(ReasonHealthy)
	f.inject(simulation.Fault{GPU: new(1), Fault: simulation.Removed})
	f.polls(2)
	events.Write()
	expect(ReasonRemoved)
	f.inject(simulation.Fault{GPU: new(1), Fault: simulation.Recovered})
	f.polls(2)
	events.Write()
	expect(ReasonAdded)
}

func TestANeedForAResetThatShowsLaterIsAnEvent(t *testing.T) {
	t.Parallel()
	with := func(fault gpu.Fault) *gpu.Snapshot {
		return &gpu.Snapshot{Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}, Fault: &fault}}}
	}
	before := with(gpu.Fault{Reason: "XID79"})
	list := events(before, with(gpu.Fault{Reason: "XID79", NeedsReset: true}), labels.Options{})
	if len(list) != 1 || list[0].reason != ReasonUnhealthy || !strings.Contains(list[0].message, "must be reset") {
		t.Errorf("the Events are %v", list)
	}
	if list := events(before, before, labels.Options{}); len(list) != 0 {
		t.Errorf("nothing changed, the Events are %v", list)
	}
}

func TestTheNodeShowsSlicesAsLongAsThereAreAny(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "{count: 2, mig: [{gpus: 1, slices: [3g.40gb, 3g.40gb]}]}")
	expect := func(what, strategy, halves, smalls string) {
		t.Helper()
		f.polls(2) // a change makes the source be opened again
		labels := f.api.node.Labels
		got := []string{labels["falldio.com/mig-strategy"], labels["falldio.com/mig-3g.40gb.count"], labels["falldio.com/mig-1g.10gb.count"]}
		if diff := cmp.Diff([]string{strategy, halves, smalls}, got); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", what, diff)
		}
	}
	expect("at first", "mixed", "2", "")
	inject := func(fault simulation.Fault) {
		t.Helper()
		if err := f.source.Inject(fault); err != nil {
			t.Fatal(err)
		}
	}
	inject(simulation.Fault{Fault: simulation.MIG, Slices: []string{"1g.10gb"}})
	expect("all GPUs are divided anew", "single", "", "2")
	inject(simulation.Fault{Fault: simulation.MIG})
	expect("there is no slice any more", "", "", "")
	writes := f.api.writes
	f.polls(5)
	if f.api.writes != writes {
		t.Errorf("%d writes although nothing has changed", f.api.writes-writes)
	}
	inject(simulation.Fault{Fault: simulation.MIG, Slices: []string{"1g.10gb"}})
	f.polls(2)
	f.edit(func(node *metav1.PartialObjectMetadata) { delete(node.Labels, "falldio.com/mig-1g.10gb.count") })
	f.clock.Step(2 * interval)
	expect("somebody has removed a label", "single", "", "2")
}
