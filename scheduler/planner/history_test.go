// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// ran lets a Pod run for an hour and end.
func (f *fixture) ran(name string) {
	f.t.Helper()
	f.podDeleted(at(pod(name, 1, since(f.clock.Now().Add(-time.Hour))), "node-0"))
}

// kube-scheduler's informer has only Pods that have not ended: the end of one looks like its deletion.
func TestRunTimesAreLearnedFromPodsThatEnd(t *testing.T) {
	t.Parallel()
	running := at(pod("train", 1, since(beginning.Add(-time.Hour))), "node-0")
	leaving, started := running.DeepCopy(), running.DeepCopy()
	leaving.DeletionTimestamp, started.Status.StartTime = new(metav1.NewTime(beginning)), nil
	second := at(pod("train-1", 1, in("train", 2, 1), since(beginning.Add(-time.Hour))), "node-0")
	for name, test := range map[string]struct {
		object any
		learns float64
	}{
		"it has ended":               {running, 1},
		"it was deleted":             {leaving, 0},
		"it did not run":             {started, 0},
		"it never had a node":        {pod("waits", 1, since(beginning)), 0},
		"nobody knows when it ended": {cache.DeletedFinalStateUnknown{Key: "default/train", Obj: running}, 0},
		"it has no GPUs":             {at(pod("cpu", 0, since(beginning.Add(-time.Hour))), "node-0"), 0},
		"others stand for its gang":  {second, 0},
	} {
		f := newFixture(t)
		f.podDeleted(test.object)
		if got := f.jobs(); got != test.learns {
			t.Errorf("%s: %g jobs are known, want %g", name, got, test.learns)
		}
	}
}

// predicted returns how long another Pod like train-1 is expected to run.
func (f *fixture) predicted() time.Duration {
	return f.line.Runtime(f.line.State(), pod("train-99", 1)).Bound
}

// section returns what is kept in a section over restarts.
func (f *fixture) section(name string) string {
	f.t.Helper()
	for _, section := range f.History() {
		if section.Name == name {
			data, err := section.Encode(1)
			if err != nil {
				f.t.Fatal(err)
			}
			return string(data)
		}
	}
	f.t.Fatalf("there is no section %s", name)
	return ""
}

// jobs returns of how many jobs it is known how long they ran.
func (f *fixture) jobs() float64 {
	f.t.Helper()
	var kept struct {
		History *runtimes.History `json:"history"`
	}
	if err := json.Unmarshal([]byte(f.section("runtimes")), &kept); err != nil {
		f.t.Fatal(err)
	}
	return kept.History.Jobs()
}

// restart returns a planner that has restored what another one has kept.
func (f *fixture) restart() *fixture {
	f.t.Helper()
	next := newFixture(f.t)
	next.withQueues(queue("all", 0, nil))
	next.clock.SetTime(f.clock.Now())
	next.restoreFrom(f)
	return next
}

// restoreFrom restores what another planner has kept.
func (f *fixture) restoreFrom(other *fixture) {
	f.t.Helper()
	sections := f.History()
	for i, section := range other.History() {
		data, err := section.Encode(1)
		if err != nil {
			f.t.Fatal(err)
		}
		if err := sections[i].Restore(data); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestWhatIsLearnedFromThePastSurvivesARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	for i := range 10 {
		f.ran(fmt.Sprintf("train-%d", i))
	}
	f.comes(pod("daily-1", 8), pod("daily-2", 4))
	f.decide(pod("daily-1", 8))
	f.decide(pod("daily-2", 4))
	next := f.restart()
	if got, want := next.predicted(), f.predicted(); got != want || got == 0 {
		t.Errorf("the predicted run time is %v, want %v", got, want)
	}
	if got, want := next.section("submissions"), f.section("submissions"); got != want || strings.Count(got, "percent") != 2 {
		t.Errorf("the submissions are %s, want %s", got, want)
	}
	if again := next.restart(); again.predicted() != f.predicted() {
		t.Error("the second restart has lost the run times")
	}
}

func TestAStandbyAddsOnlyWhatHasEndedSince(t *testing.T) {
	t.Parallel()
	leads, standby := newFixture(t), newFixture(t)
	for i := range 10 {
		leads.ran(fmt.Sprintf("train-%d", i))
		standby.ran(fmt.Sprintf("train-%d", i))
	}
	standby.clock.Step(time.Minute) // the leader has been killed
	standby.ran("train-10")
	standby.restoreFrom(leads)
	if got := standby.jobs(); got != 11 {
		t.Errorf("it knows %g jobs, want 11", got)
	}
}

func TestABrokenSectionChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 10 {
		f.ran(fmt.Sprintf("train-%d", i))
	}
	for _, section := range f.History() {
		for _, text := range []string{`{`, `{"until":"2026-01-01T00:00:00Z"}`, `[{"estimated":-1}]`, `[{"estimated":1e300}]`, `[{"percent":1}]`} {
			if section.Name == "outcomes" && text == `[{"percent":1}]` {
				continue // unknown fields are ignored
			}
			if err := section.Restore([]byte(text)); err == nil {
				t.Errorf("%s: %s was accepted", section.Name, text)
			}
		}
	}
	if got := f.jobs(); got != 10 {
		t.Errorf("it knows %g jobs, want 10", got)
	}
}

func TestEstimatesCountOnThoseWhoAreLikelyToCome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	yesterday := pod("eval", 8, runsFor(5*time.Minute), func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(beginning.Add(30*time.Minute - 24*time.Hour))
	})
	f.comes(yesterday)
	f.decide(yesterday)
	f.goes(yesterday)
	waits := pod("waits", 8, runsFor(48*time.Hour))
	f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), waits)
	f.decide(waits)
	f.line.Order()
	if _, err := f.handle.client.CoreV1().Pods("default").Create(t.Context(), waits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.line.EstimateStarts(t.Context(), f.line.State())
	estimate := f.estimateIn("waits")
	if want := beginning.Add(time.Hour + 5*time.Minute); !estimate.Likely.Time.Equal(want) {
		t.Errorf("the estimate is %+v, want %v", estimate, want)
	}
	if estimate.Behind != "runs (8 GPUs)" {
		t.Errorf("it is said to wait for %q, want the Pod that runs: nobody knows the other one", estimate.Behind)
	}
}

func TestWhoReplacesMembersIsNoSubmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	none := newFixture(t).section("submissions")
	others := gang("eval", 2, 2)
	f.comes(at(others[0], "node-0", 7), others[1])
	f.decide(others[1])
	if got := f.section("submissions"); got != none {
		t.Errorf("submissions, although a member was replaced: %s", got)
	}
	pods := gang("train", 2, 2)
	f.comes(pods...)
	f.decide(pods[0])
	if got := f.section("submissions"); got == none {
		t.Error("a gang that comes is no submission")
	}
}
