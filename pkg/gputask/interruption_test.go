// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// stoppedAt is a Pod that had run on node a for a day when something stopped it, at a time after now.
func (b podBuilder) stoppedAt(after time.Duration, reason, message string) podBuilder {
	b = b.createdAfter(-24*time.Hour).running("a").condition(corev1.DisruptionTarget, corev1.ConditionTrue, reason, message)
	return b.with(func(p *corev1.Pod) {
		at := metav1.NewTime(now.Add(after)).Rfc3339Copy()
		p.Status.Conditions[len(p.Status.Conditions)-1].LastTransitionTime = at
		p.DeletionTimestamp = &at
	})
}

func TestATaskSaysWhyItsPodsWereTakenAway(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reason, message, want string }{
		"preempted":            {corev1.PodReasonPreemptionByScheduler, "task big (priority 100) needs its place", "Preempted: preempted at 2026-11-21T12:00:00Z: task big (priority 100) needs its place"},
		"evicted":              {"EvictionByEvictionAPI", "Eviction API: evicting", "Evicted: evicted from node a at 2026-11-21T12:00:00Z"},
		"lost with its node":   {"DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", "NodeLost: lost with node a at 2026-11-21T12:00:00Z: Taint manager: deleting due to NoExecute taint"},
		"stopped by its node":  {corev1.PodReasonTerminationByKubelet, "The node was low on memory.", "StoppedByNode: stopped by node a at 2026-11-21T12:00:00Z: The node was low on memory."},
		"stopped by something": {"DeletionByDeviceTaintManager", "", "Disrupted: stopped at 2026-11-21T12:00:00Z: DeletionByDeviceTaintManager"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
			before := *task.Status.DeepCopy()
			status := decideAt(t, task, time.Second, pods(task.pod(0, 0).stoppedAt(0, test.reason, test.message)), nil).Status
			reason, text, _ := strings.Cut(test.want, ": ")
			if last := status.LastInterruption; last == nil || string(last.Reason) != reason || last.EndTime != nil {
				t.Fatalf("the status has %+v", last)
			}
			text = strings.ReplaceAll(text, "12:00:00", now.UTC().Format(time.TimeOnly))
			if !strings.HasPrefix(status.Message, text+"; ") {
				t.Errorf("the message is %q, want it to begin with %q", status.Message, text)
			}
			var reasons []string
			for _, event := range Events(&before, &status) {
				reasons = append(reasons, event.Reason)
			}
			if got := strings.Join(reasons, " "); got != reason {
				t.Errorf("the Events are %s, want %s", got, reason)
			}
		})
	}
}

func TestAnInterruptionEndsWhenTheTaskRunsAgain(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	stop := func(index int, after time.Duration) podBuilder {
		return task.pod(index, 0).stoppedAt(after, corev1.PodReasonPreemptionByScheduler, "task big (priority 100) needs its place")
	}
	task.replicas(2)
	first := *decideAt(t, task, time.Second, pods(stop(0, 0), task.pod(1, 0).createdAfter(-24*time.Hour).running("b")), nil).Status.LastInterruption
	events := decideAt(t, task, 2*time.Second, nil, pods(stop(0, 0), stop(1, time.Second))).Status
	if got := events.LastInterruption; got == nil || !got.Time.Equal(&first.Time) {
		t.Errorf("Pods that are taken away together are two interruptions: %+v and %+v", first, got)
	}
	running := pods(task.pod(0, 0).createdAfter(time.Minute).running("c"), task.pod(1, 0).createdAfter(time.Minute).running("c"))
	status := decideAt(t, task, 2*time.Minute, running, nil).Status
	if got := status.LastInterruption; got == nil || got.EndTime == nil || !got.EndTime.Equal(new(metav1.NewTime(now.Add(2*time.Minute)).Rfc3339Copy())) {
		t.Errorf("when it runs again, the status has %+v", got)
	}
	waiting := decideAt(t, task, time.Hour, pods(task.pod(0, 0).createdAfter(time.Hour)), nil).Status
	if strings.Contains(waiting.Message, "preempted") {
		t.Errorf("when it waits for another reason, the message is %q", waiting.Message)
	}
}

// The scheduler marks a Pod first, and deletes it then.
func TestAnInterruptionLastsWhileThePodThatIsTakenAwayStillRuns(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	marked := task.pod(0, 0).stoppedAt(0, corev1.PodReasonPreemptionByScheduler, "task big (priority 100) needs its place")
	stillRuns := marked.with(func(p *corev1.Pod) { p.DeletionTimestamp = nil })
	if got := decideAt(t, task, time.Second, pods(stillRuns), nil).Status.LastInterruption; got == nil || got.EndTime != nil {
		t.Errorf("while it still runs, the status has %+v", got)
	}
	status := decideAt(t, task, 2*time.Second, nil, pods(marked)).Status
	if got := status.LastInterruption; got.EndTime != nil || !strings.HasPrefix(status.Message, "preempted at ") {
		t.Errorf("once it is gone, the status has %+v, and the message is %q", got, status.Message)
	}
}

func TestWhatTheControllerStopsItselfIsNoInterruption(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	status := decideAt(t, task, time.Second, pods(task.pod(0, 0).running("a").deletedAgo(time.Second)), nil).Status
	if status.LastInterruption != nil {
		t.Errorf("the status has %+v", status.LastInterruption)
	}
}

func TestATaskSaysWhatItsPodsWereEvictedFor(t *testing.T) {
	t.Parallel()
	for purpose, want := range map[v1.InterruptionReason]string{
		v1.InterruptionMoved:   "moved from node a at ",
		v1.InterruptionDrained: "evicted from node a at ",
		v1.InterruptionEvicted: "evicted from node a at ",
	} {
		task := makeTask("train").replicas(2).phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
		asked := 0
		in := input(task, pods(task.pod(0, 0).stoppedAt(0, "EvictionByEvictionAPI", ""), task.pod(1, 0).stoppedAt(time.Second, "EvictionByEvictionAPI", "")))
		in.Now = now.Add(2 * time.Second)
		in.EvictedFor = func(*corev1.Pod) v1.InterruptionReason {
			asked++
			return purpose
		}
		plan, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		last := plan.Status.LastInterruption
		if last == nil || last.Reason != purpose || !strings.HasPrefix(plan.Status.Message, want) {
			t.Errorf("%s: the status has %+v and says %q", purpose, last, plan.Status.Message)
		}
		if drained := strings.Contains(plan.Status.Message, " because the node is being drained"); drained != (purpose == v1.InterruptionDrained) {
			t.Errorf("%s: it says %q", purpose, plan.Status.Message)
		}
		if asked != 1 {
			t.Errorf("%s: it asked %d times about two Pods", purpose, asked)
		}
	}
}

func TestAnInterruptionSaysWhenTheWorkWasSaved(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(24*time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	saved := func(after time.Duration) podBuilder {
		pod := task.pod(0, 0).stoppedAt(0, corev1.PodReasonPreemptionByScheduler, "task big needs its place")
		return pod.with(func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1.AnnotationLastCheckpoint: now.Add(after).UTC().Format(time.RFC3339)}
		})
	}
	status := decideAt(t, task, time.Second, pods(saved(-time.Minute)), nil).Status
	if got := status.LastInterruption.SavedTime; got == nil || !got.Time.Equal(now.Add(-time.Minute)) {
		t.Errorf("it was saved at %v", got)
	}
	// It saves its work while it stops.
	task.Status = status
	status = decideAt(t, task, 20*time.Second, pods(saved(10*time.Second)), nil).Status
	if got := status.LastInterruption.SavedTime; got == nil || !got.Time.Equal(now.Add(10*time.Second)) {
		t.Errorf("it was saved at %v", got)
	}
	want := "; its work was saved at " + now.Add(10*time.Second).UTC().Format(time.RFC3339)
	if !strings.Contains(status.Message, want) {
		t.Errorf("the message is %q, want %q in it", status.Message, want)
	}
}
