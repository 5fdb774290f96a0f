// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/simulation"
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
		t.Errorf("%d writes against somebody who insists, in 100 seconds", f.api.writes)
	}
	f.clock.Step(2 * interval)
	f.polls(1)
	f.expectLabel("falldio.com/gpu", "h100-80gb-hbm3")
}

func TestANodeThatIsMadeAnewIsLabelledAtOnce(t *testing.T) {
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
	if _, failed := f.publisher.Statistics().Counts(); int(failed) != f.api.writes {
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
	faults, err := f.view.Faults()
	if err != nil {
		t.Fatal(err)
	}
	if fault, known := faults[simulation.UUID(nodeName, 2)]; len(faults) != 1 || !known || fault.Reason != "Lost" {
		t.Errorf("the annotation tells of %v", faults)
	}
	f.edit(func(node *metav1.PartialObjectMetadata) { node.Annotations[inventory.Annotation] = "{" })
	if _, err := f.view.Faults(); err == nil {
		t.Error("an annotation that can't be read is no error")
	}
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
