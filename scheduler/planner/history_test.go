// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/history"
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
		if got := f.line.book.history.Jobs(); got != test.learns {
			t.Errorf("%s: %g jobs are known, want %g", name, got, test.learns)
		}
	}
}

// predicted returns how long another Pod like train-1 is expected to run.
func (f *fixture) predicted() time.Duration {
	return f.line.book.runtimeOf(f.line.State(), "all", pod("train-99", 1)).Bound
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
	for i := range 20 {
		f.line.outcomes.add(outlook.Outcome{Estimated: time.Hour, Waited: time.Duration(i) * 10 * time.Minute})
	}
	next := f.restart()
	if got, want := next.predicted(), f.predicted(); got != want || got == 0 {
		t.Errorf("the predicted run time is %v, want %v", got, want)
	}
	later := f.clock.Now().Add(time.Hour)
	if got, want := next.line.submissions.again(later), f.line.submissions.again(later); len(want) != 1 || len(want[0]) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("the submissions are %+v, want %+v", got, want)
	}
	estimate := outlook.Estimate{Likely: later}
	if got, want := next.line.outcomes.adjust(estimate, 0, f.clock.Now()), f.line.outcomes.adjust(estimate, 0, f.clock.Now()); got != want || got == estimate {
		t.Errorf("an estimate becomes %+v, want %+v", got, want)
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
	if got := standby.line.book.history.Jobs(); got != 11 {
		t.Errorf("it knows %g jobs, want 11", got)
	}
	standby.clock.Step(time.Hour)
	standby.ran("train-11")
	if got := len(standby.line.book.recent); got != 1 {
		t.Errorf("%d jobs are remembered one by one, want the last one", got)
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
	if got := f.line.book.history.Jobs(); got != 10 {
		t.Errorf("it knows %g jobs, want 10", got)
	}
}

// writeHistory lets a keeper write everything once, and returns the sizes of the sections in bytes.
func (f *fixture) writeHistory() map[string]int {
	f.t.Helper()
	keeper := history.NewKeeper(f.handle.client, f.clock, leadership.Always(), history.Place{Namespace: "system", Name: "history", Period: time.Minute}, f.History())
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	f.awaitWaiter()
	cancel()
	running.Wait()
	keeper.Close(ctx)
	object, err := f.handle.client.CoreV1().ConfigMaps("system").Get(f.t.Context(), "history", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	sizes := map[string]int{}
	for name, content := range object.BinaryData {
		sizes[name] = len(content)
	}
	return sizes
}

// awaitWaiter waits until something waits for time to pass.
func (f *fixture) awaitWaiter() {
	f.t.Helper()
	for begin := time.Now(); !f.clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			f.t.Fatal("nothing waits")
		}
	}
}

// words returns a name that no other number has, without digits.
func words(number uint64) (text string) {
	for range 8 {
		text += string(rune('a' + number%26))
		number /= 26
	}
	return text
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 60_000 {
		task := runtimes.Task{Namespace: words(random.Uint64N(50)), Name: words(random.Uint64N(1000)), GPUs: float64(1 + random.IntN(64)), Limit: time.Duration(random.IntN(1 << 20))}
		f.line.book.learn(endedJob{task: task, ran: time.Duration(random.IntN(1e6)) * time.Second, at: f.clock.Now()})
		f.line.submissions.record.Add(fmt.Sprint(i), arrivals.Submission{
			At: f.clock.Now().Add(time.Duration(i) * time.Second), Queue: words(random.Uint64N(9)), Percent: random.IntN(6400), Task: task,
			Needs: []outlook.Need{{Members: 1 + random.IntN(64), Percent: 1 + random.IntN(800), Models: []string{"h100"}}},
		})
		f.line.outcomes.add(outlook.Outcome{Age: random.IntN(3), Estimated: time.Duration(random.IntN(1e15)), Waited: time.Duration(random.IntN(1e15))})
	}
	sizes, total := f.writeHistory(), 0
	for _, size := range sizes {
		total += size
	}
	if len(sizes) != 3 || total > 900<<10 || sizes["runtimes"] < mostOfRuntimes/32 || sizes["submissions"] < mostOfSubmissions/8 {
		t.Errorf("the sizes are %v, together %d bytes", sizes, total)
	}
	t.Logf("the sizes are %v, together %d bytes", sizes, total)
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
	future, held := f.line.future(f.line.State(), f.line.order.first(), beginning)
	estimate := outlook.Estimates(future)[0]
	if want := beginning.Add(time.Hour + 5*time.Minute); !estimate.Likely.Equal(want) {
		t.Errorf("the estimate is %+v, want %v", estimate, want)
	}
	if written := f.line.described(&f.line.order.first()[0], estimate, held); written.Behind != "" {
		t.Errorf("it is said to wait for %q, which nobody knows", written.Behind)
	}
}

func TestWhoReplacesMembersIsNoSubmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "a", 8)
	pods := gang("train", 2, 2)
	f.comes(pods...)
	f.decide(pods[0]) // there are no queues
	f.withQueues(queue("all", 0, nil))
	if got := f.line.submissions.record.Len(); got != 0 {
		t.Errorf("%d submissions without queues", got)
	}
	others := gang("eval", 2, 2)
	f.comes(at(others[0], "node-0", 7), others[1])
	f.decide(others[1])
	if got := f.line.submissions.record.Len(); got != 0 {
		t.Errorf("%d submissions, want none: a member was replaced", got)
	}
}
