// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

const halfLife = 24 * time.Hour

// teams are an organisation with two teams.
func teams() []*v1.GPUQueue {
	return []*v1.GPUQueue{
		newQueue("org", "", quota("*", 8, 16)), newQueue("vision", "org", quota("*", 4)), newQueue("speech", "org", quota("*", 4)),
	}
}

func TestTheStatusSaysWhatAQueueHoldsAndWaitsFor(t *testing.T) {
	t.Parallel()
	queues := teams()
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }
	gated := func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} }
	view := viewOf(queues,
		newPod("a-0", "vision", 4, runsSince(30*time.Minute), ofTask("a", 0)),
		newPod("a-1", "vision", 2, runsSince(30*time.Minute), ofTask("a", 1)),
		newPod("a-2", "vision", 2, ofTask("a", 2)), // waits, but its task runs
		newPod("b-0", "vision", 8, ofTask("b", 0), wantsModel("h100")),
		newPod("b-1", "vision", 8, ofTask("b", 1), wantsModel("h100")),
		newPod("c", "speech", 1),
		newPod("ended", "speech", 1, runsSince(time.Hour), endedBefore(time.Minute)),
		newPod("stopping", "speech", 1, runsSince(10*time.Minute), deleted), // it holds its GPU until it is gone
		newPod("never-started", "speech", 1, deleted),
		newPod("gated", "speech", 1, gated),
		newPod("of-no-queue", "gone", 1, runsSince(time.Hour)),
	)
	accounts := Accounts{}
	accounts.Load(queues)
	accounts.Charge(view.tree, view.Holdings, now, halfLife)
	report := NewReport(view, accounts, halfLife, now)

	want := map[string][]v1.GPUQueueUsed{
		"org":    {{GPU: "*", Used: "7", Borrowed: "0", Waiting: "19"}, {GPU: "h100", Used: "7", Borrowed: "0", Waiting: "16"}},
		"vision": {{GPU: "*", Used: "6", Borrowed: "2", Waiting: "18"}, {GPU: "h100", Used: "6", Borrowed: "2", Waiting: "16"}},
		"speech": {{GPU: "*", Used: "1", Borrowed: "0", Waiting: "1"}, {GPU: "h100", Used: "1", Borrowed: "0", Waiting: "0"}},
	}
	counts := map[string]string{"org": "2 run, 2 wait", "vision": "1 run, 1 wait", "speech": "1 run, 1 wait"}
	for _, queue := range queues {
		status := report.Status(queue)
		if diff := cmp.Diff(want[queue.Name], status.Resources); diff != "" {
			t.Errorf("resources of %s (-want +got):\n%s", queue.Name, diff)
		}
		if got := fmt.Sprintf("%d run, %d wait", status.Running, status.Waiting); got != counts[queue.Name] {
			t.Errorf("%s: %s, want %s", queue.Name, got, counts[queue.Name])
		}
		ready := status.Conditions[0]
		if status.ObservedGeneration != 3 || ready.Type != "Ready" || ready.Status != metav1.ConditionTrue || ready.Reason != v1.ReasonQueueAccepted {
			t.Errorf("%s: generation %d, condition %+v", queue.Name, status.ObservedGeneration, ready)
		}
	}
	status := report.Status(queues[0])
	if diff := cmp.Diff(&v1.GPUQueueSummary{Guaranteed: "8", Limit: "16", Used: "7", Borrowed: "0", Waiting: "19"}, status.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	// 6 GPUs for half an hour, 1 for 59 and 1 for 10 minutes.
	if got := status.Usage.GPUHours; got != "4.150" {
		t.Errorf("%s GPU-hours, want 4.150", got)
	}
}

// A tenant names another team's queue, in a Pod that somebody else's scheduler has bound and in one that waits.
func TestAnotherTeamNeitherPaysNorSeemsToWait(t *testing.T) {
	t.Parallel()
	victim, attacker := newQueue("victim", "", quota("*", 8, 8)), newQueue("attacker", "", quota("*", 0, 2))
	victim.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "victim"}
	attacker.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "attacker"}
	queues := []*v1.GPUQueue{victim, attacker}
	cluster := newCluster()
	cluster.Namespace = func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "attacker"}}}
	}
	view := NewView(NewTree(queues))
	for _, pod := range []*corev1.Pod{newPod("bound", "victim", 8, runsSince(time.Hour)), newPod("waits", "victim", 4)} {
		view.Add(cluster, pod)
	}
	accounts := Accounts{}
	accounts.Load(queues)
	accounts.Charge(view.tree, view.Holdings, now, halfLife)
	report := NewReport(view, accounts, halfLife, now)
	for queue, want := range map[*v1.GPUQueue]string{victim: "0 used, 0 waiting, 0.000 GPU-hours", attacker: "8 used, 4 waiting, 8.000 GPU-hours"} {
		status := report.Status(queue)
		if got := fmt.Sprintf("%s used, %s waiting, %s GPU-hours", status.Summary.Used, status.Summary.Waiting, status.Usage.GPUHours); got != want {
			t.Errorf("%s: %s, want %s", queue.Name, got, want)
		}
	}
}

func TestTheSummaryNamesModels(t *testing.T) {
	t.Parallel()
	queue := newQueue("q", "", quota("h100", 8, 8), quota("*", 16))
	many := newQueue("many", "")
	for i := range 64 {
		many.Spec.Resources = append(many.Spec.Resources, quota(fmt.Sprintf("%s-%d", strings.Repeat("x", 50), i), 1))
	}
	queues := []*v1.GPUQueue{queue, many, newQueue("bare", "")}
	report := NewReport(viewOf(queues), Accounts{}, halfLife, now)
	if got := report.Status(queue).Summary; got.Guaranteed != "*=16,h100=8" || got.Limit != "h100=8" {
		t.Errorf("%+v", got)
	}
	if got := report.Status(queues[2]).Summary; got.Guaranteed != "0" || got.Limit != "" {
		t.Errorf("%+v", got)
	}
	if got := report.Status(many).Summary.Guaranteed; len(got) > maxLine || !strings.HasSuffix(got, ",…") {
		t.Errorf("%d characters: %s", len(got), got)
	}
}

func TestProblemsAreConditions(t *testing.T) {
	t.Parallel()
	queue := newQueue("q", "gone")
	queue.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: ago(time.Hour)}}
	report := NewReport(viewOf([]*v1.GPUQueue{queue}), Accounts{}, halfLife, now)
	ready := report.Status(queue).Conditions[0]
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1.ReasonParentNotFound || !strings.Contains(ready.Message, `there is no GPUQueue "gone"`) || !ready.LastTransitionTime.Time.Equal(now) {
		t.Errorf("condition: %+v", ready)
	}
	if before := queue.Status.Conditions[0]; before.Status != metav1.ConditionTrue {
		t.Error("the cached object was changed")
	}
}

// TestUsageDoesNotDependOnWhoCountsWhen: counting in steps, by one process or by several that know
// only the statuses, is the same as counting once.
func TestUsageDoesNotDependOnWhoCountsWhen(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		newPod("long", "vision", 4, runsSince(50*time.Minute)),
		newPod("late", "vision", 2, runsSince(7*time.Minute)),
		newPod("ended", "speech", 3, runsSince(40*time.Minute), endedBefore(20*time.Minute)),
		newPod("before-the-queue", "speech", 1, runsSince(5*time.Hour)),
	}
	const shortHalfLife = 20 * time.Minute // so that decay counts
	count := func(restart bool, steps ...time.Duration) []*v1.GPUQueue {
		queues, accounts := teams(), Accounts{}
		for _, step := range steps {
			at := now.Add(-step)
			view := NewView(NewTree(queues))
			for _, pod := range pods {
				view.Add(newCluster(), pod)
			}
			if restart {
				accounts = Accounts{}
			}
			accounts.Load(queues)
			for i := range view.Holdings {
				if view.Holdings[i].Until.After(at) {
					view.Holdings[i].Until = time.Time{} // it has not ended yet
				}
			}
			accounts.Charge(view.tree, view.Holdings, at, shortHalfLife)
			report := NewReport(view, accounts, shortHalfLife, at)
			for _, queue := range queues {
				queue.Status = report.Status(queue)
			}
		}
		return queues
	}
	once := count(false, 0)
	steps := []time.Duration{55 * time.Minute, 30 * time.Minute, 20 * time.Minute, 10 * time.Minute, time.Minute, 30 * time.Second, 0}
	for name, queues := range map[string][]*v1.GPUQueue{"in steps": count(false, steps...), "by several processes": count(true, steps...)} {
		for i, queue := range queues {
			want, got := once[i].Status.Usage, queue.Status.Usage
			rounding := float64(len(steps)) // each status is rounded
			if math.Abs(hours(t, got)-hours(t, want)) > 0.0005*rounding || math.Abs(float64(got.GPUSeconds-want.GPUSeconds)) > 0.5*rounding || got.Factor != want.Factor {
				t.Errorf("%s, %s: %+v, want %+v", name, queue.Name, got, want)
			}
		}
	}
	// vision: 4 × 50 + 2 × 7 minutes; speech: 3 × 20, and 1 since the queue was created.
	if got := []string{once[0].Status.Usage.GPUHours, once[1].Status.Usage.GPUHours, once[2].Status.Usage.GPUHours}; !cmp.Equal(got, []string{"5.567", "3.567", "2.000"}) {
		t.Errorf("GPU-hours: %v", got)
	}
}

func hours(t *testing.T, usage *v1.GPUQueueTime) float64 {
	t.Helper()
	hours, err := strconv.ParseFloat(usage.GPUHours, 64)
	if err != nil {
		t.Fatal(err)
	}
	return hours
}

func TestAQueueOfTheSameNameBeginsAnew(t *testing.T) {
	t.Parallel()
	accounts := Accounts{}
	accounts.Load([]*v1.GPUQueue{newQueue("q", "")})
	accounts["q"].Total = 1000
	other := newQueue("q", "")
	other.UID = "another"
	accounts.Load([]*v1.GPUQueue{other})
	if got := accounts["q"].Total; got != 0 {
		t.Errorf("it has used %v GPU-seconds", got)
	}
	accounts.Load(nil)
	if len(accounts) > 0 {
		t.Error("the account of a deleted queue is kept")
	}
}

// A leader's clock was ahead for a moment, by a little or by a day, and its successor's is right.
func TestAClockThatWasAheadDoesNotEndTheCount(t *testing.T) {
	t.Parallel()
	tree := queueing.NewTree([]queueing.Queue{{Name: "q"}})
	for ahead, want := range map[time.Duration]float64{time.Minute: 540, 24 * time.Hour: 600} {
		queue := newQueue("q", "")
		queue.CreationTimestamp = ago(time.Hour)
		queue.Status.Usage = &v1.GPUQueueTime{AsOf: ago(-ahead), GPUHours: "0"}
		accounts := Accounts{}
		accounts.Load([]*v1.GPUQueue{queue})
		holdings := []Holding{{Queue: "q", Amount: queueing.GPU, From: now.Add(-time.Hour)}}
		for minute := range 11 {
			accounts.Charge(tree, holdings, now.Add(time.Duration(minute)*time.Minute), queueing.DefaultHalfLife)
		}
		if got := accounts["q"].Total; got != want {
			t.Errorf("after a clock that was %v ahead, %v GPU-seconds are counted in ten minutes, want %v", ahead, got, want)
		}
	}
}

// A Pod has ended, according to its node in three hours.
func TestAPodThatEndsInTheFutureHasEnded(t *testing.T) {
	t.Parallel()
	queue := newQueue("q", "")
	queue.CreationTimestamp = ago(time.Hour)
	accounts := Accounts{}
	accounts.Load([]*v1.GPUQueue{queue})
	tree := queueing.NewTree([]queueing.Queue{{Name: "q"}})
	holdings := []Holding{{Queue: "q", Amount: queueing.GPU, From: now.Add(-time.Hour), Until: now.Add(3 * time.Hour)}}
	for minute := range 300 {
		accounts.Charge(tree, holdings, now.Add(time.Duration(minute)*time.Minute), queueing.DefaultHalfLife)
	}
	if got := time.Duration(accounts["q"].Total) * time.Second; got > queueing.MaxAhead+time.Minute {
		t.Errorf("%v were counted after it had ended", got)
	}
}

func TestStatusesAreWrittenWhenItIsWorthIt(t *testing.T) {
	t.Parallel()
	base := func() *v1.GPUQueueStatus {
		return &v1.GPUQueueStatus{
			ObservedGeneration: 1, Running: 1,
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}},
			Usage:      &v1.GPUQueueTime{GPUSeconds: 100, AsOf: ago(2 * time.Minute), GPUHours: "1.000", Factor: "1.00"},
		}
	}
	recent := func(s *v1.GPUQueueStatus) { s.Usage.AsOf = ago(30 * time.Second) }
	tests := map[string]struct {
		before, after func(*v1.GPUQueueStatus)
		want          bool
	}{
		"nothing has changed but the decay":         {nil, func(s *v1.GPUQueueStatus) { s.Usage.GPUSeconds, s.Usage.AsOf = 90, ago(0) }, false},
		"more was used":                             {nil, func(s *v1.GPUQueueStatus) { s.Usage.GPUHours = "1.100" }, true},
		"more was used, but it was written lately":  {recent, func(s *v1.GPUQueueStatus) { s.Usage.GPUHours = "1.100" }, false},
		"a task has started":                        {nil, func(s *v1.GPUQueueStatus) { s.Running = 2 }, true},
		"a task has started, written lately":        {recent, func(s *v1.GPUQueueStatus) { recent(s); s.Running = 2 }, false},
		"the spec has changed, written lately":      {recent, func(s *v1.GPUQueueStatus) { recent(s); s.ObservedGeneration = 2 }, true},
		"the condition has changed, written lately": {recent, func(s *v1.GPUQueueStatus) { recent(s); s.Conditions[0].Status = metav1.ConditionFalse }, true},
		"the time was written by a clock that was ahead": {
			func(s *v1.GPUQueueStatus) { s.Usage.AsOf = ago(-time.Hour) }, func(s *v1.GPUQueueStatus) { s.Usage.AsOf = ago(0) }, true,
		},
		"the time was written by a clock that is a little ahead": {
			func(s *v1.GPUQueueStatus) { s.Usage.AsOf = ago(-time.Minute) }, func(s *v1.GPUQueueStatus) { s.Usage.GPUHours = "1.100" }, false,
		},
		"others have used more":  {nil, func(s *v1.GPUQueueStatus) { s.Usage.Factor = "0.90" }, true},
		"it is the first status": {func(s *v1.GPUQueueStatus) { *s = v1.GPUQueueStatus{} }, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := base(), base()
			if tc.before != nil {
				tc.before(before)
			}
			if tc.after != nil {
				tc.after(after)
			}
			if got := WorthWriting(before, after, now); got != tc.want {
				t.Errorf("worth writing: %v, want %v", got, tc.want)
			}
		})
	}
}
