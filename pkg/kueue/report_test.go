// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func inPhase(phase v1.GPUTaskPhase) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) { t.Status.Phase, t.Status.Message = phase, "message of "+string(phase) }
}

func noLabel(t *v1.GPUTask) { t.Labels = nil }

func suspended(t *v1.GPUTask) { t.Spec.Suspend = new(true) }

func replicas(n int32) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) {
		t.Spec.Replicas, t.Spec.MaxReplicas, t.Spec.MinAvailable = &n, new(int32(8)), new(int32(1))
	}
}

// next returns the next step for a task with its Workload.
func next(t *testing.T, task *v1.GPUTask, active int, workload *Workload) Step {
	t.Helper()
	step, err := Next(Observed{Task: task, Status: &task.Status, Active: map[string]int{"": active}, Workload: workload, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return step
}

func deleted(t *v1.GPUTask) { t.DeletionTimestamp = &metav1.Time{Time: now} }

func changed(t *v1.GPUTask) {
	t.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}}
}

func withoutHash(w *Workload) { delete(w.Labels, v1.LabelTemplateHash) }

func TestStepsOfAWorkload(t *testing.T) {
	t.Parallel()
	none := func(t *testing.T, _ *v1.GPUTask) *Workload { t.Helper(); return nil }
	with := func(change ...func(*Workload)) func(*testing.T, *v1.GPUTask) *Workload {
		return func(t *testing.T, _ *v1.GPUTask) *Workload { t.Helper(); return workloadOf(t, newTask(), change...) }
	}
	for name, c := range map[string]struct {
		task     *v1.GPUTask
		workload func(*testing.T, *v1.GPUTask) *Workload
		active   int
		want     string
	}{
		"a new task gets one":                                     {newTask(), none, 0, "create"},
		"a task without the label gets none":                      {newTask(noLabel), none, 0, "none"},
		"a suspended task gets none":                              {newTask(suspended), none, 0, "none"},
		"a finished task gets none":                               {newTask(inPhase(v1.PhaseFailed)), none, 0, "none"},
		"a task that is being deleted gets none":                  {newTask(deleted), none, 0, "none"},
		"that of a deleted task stays while Pods stop":            {newTask(deleted), with(admit), 1, "none"},
		"that of a deleted task goes when no Pod is left":         {newTask(deleted), with(admit), 0, "delete"},
		"one that waits follows its task's template":              {newTask(changed), with(), 0, "spec"},
		"one that waits follows its task's time":                  {newTask(func(t *v1.GPUTask) { t.Labels[LabelMaxExecTime] = "60" }), with(), 0, "spec"},
		"one that has quota for what the task was stays at first": {newTask(changed), with(admit), 1, "none"},
		"one that has quota for what the task was goes":           {newTask(changed), with(admit), 0, "delete"},
		"one of an earlier version stays":                         {newTask(changed, inPhase(v1.PhasePending)), with(admit, withoutHash), 2, "none"},
		"that of a task that loses its label goes":                {newTask(noLabel), with(admit), 0, "delete"},
		"that of a suspended task goes when no Pod is left":       {newTask(suspended), with(admit), 0, "delete"},
		"that of a suspended task stays while Pods stop":          {newTask(suspended), with(admit), 1, "none"},
		"one that is being deleted is left alone":                 {newTask(suspended), with(func(w *Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} }), 0, "none"},
		"one that waits is left alone":                            {newTask(), with(isNot(QuotaReserved, "Pending", "")), 0, "none"},
		"one that waits follows its task to another queue":        {newTask(func(t *v1.GPUTask) { t.Labels[LabelQueue] = "team-b" }), with(), 0, "spec"},
		"one that waits follows its task's class":                 {newTask(func(t *v1.GPUTask) { t.Labels[LabelPriorityClass] = "prod" }), with(), 0, "spec"},
		"one that waits follows its task's size":                  {newTask(replicas(5)), with(), 0, "spec"},
		"one that has quota stays in its queue":                   {newTask(func(t *v1.GPUTask) { t.Labels[LabelQueue] = "team-b" }), with(admit), 0, "none"},
		"one that has quota does not grow":                        {newTask(replicas(5)), with(admit), 2, "none"},
		"one that is admitted is left alone while Pods start":     {newTask(inPhase(v1.PhasePending)), with(admit), 2, "none"},
		"Pods that run are reported":                              {newTask(inPhase(v1.PhaseRunning)), with(admit), 2, "status QuotaReserved=True Admitted=True PodsReady=True"},
		"Pods that run are reported once":                         {newTask(inPhase(v1.PhaseRunning)), with(admit, is(PodsReady, "Started", "")), 2, "none"},
		"Pods that run no more are reported":                      {newTask(inPhase(v1.PhasePending)), with(admit, is(PodsReady, "Started", "")), 2, "status QuotaReserved=True Admitted=True PodsReady=False"},
		"one without all checks is left alone":                    {newTask(), with(reserve), 0, "none"},
		"one that is evicted keeps its quota while Pods stop":     {newTask(), with(evict), 1, "none"},
		"one that is evicted gives its quota back":                {newTask(), with(evict), 0, "status QuotaReserved=False Admitted=False Evicted=True Requeued=True"},
		"one that was evicted and has no quota is left alone":     {newTask(), with(evict, isNot(QuotaReserved, "Pending", "")), 0, "none"},
		"the end is reported":                                     {newTask(inPhase(v1.PhaseSucceeded)), with(admit), 0, "status QuotaReserved=True Admitted=True Finished=True"},
		"the end is reported once":                                {newTask(inPhase(v1.PhaseSucceeded)), with(admit, is(Finished, "Succeeded", "")), 0, "none"},
		"one that somebody else marked as finished is left alone": {newTask(), with(admit, is(Finished, "OutOfSync", "")), 0, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := next(t, c.task, c.active, c.workload(t, c.task)).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlySomeEvictedWorkloadsQueueAtOnce(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]metav1.ConditionStatus{
		"Preempted": metav1.ConditionTrue, "NodeFailures": metav1.ConditionTrue,
		"PodsReadyTimeout": metav1.ConditionFalse, "AdmissionCheck": metav1.ConditionFalse, "Deactivated": metav1.ConditionFalse,
	} {
		workload := workloadOf(t, newTask(), admit, is(Evicted, reason, "why"), is(PodsReady, "Started", ""))
		status := next(t, newTask(), 0, workload).Status
		got := meta.FindStatusCondition(status.Conditions, Requeued)
		if got == nil || got.Status != want || got.Reason != reason {
			t.Errorf("evicted as %s: %v", reason, got)
		}
		if status.Admission != nil || *status.AccumulatedPastExecutionTimeSeconds != 60 || meta.IsStatusConditionTrue(status.Conditions, PodsReady) {
			t.Errorf("evicted as %s: %+v", reason, status)
		}
		if workload.Status.Admission == nil || !meta.IsStatusConditionTrue(workload.Status.Conditions, QuotaReserved) {
			t.Error("the Workload in the cache was changed")
		}
	}
}

func TestRecoveryIsToldFromTheFirstStart(t *testing.T) {
	t.Parallel()
	running := newTask(inPhase(v1.PhaseRunning))
	for name, c := range map[string]struct {
		before func(*Workload)
		want   string
	}{
		"nothing was reported":  {func(*Workload) {}, "Started"},
		"it was evicted before": {isNot(PodsReady, "WaitForStart", ""), "Started"},
		"it had lost Pods":      {isNot(PodsReady, "WaitForRecovery", ""), "Recovered"},
	} {
		status := next(t, running, 2, workloadOf(t, running, admit, c.before)).Status
		if got := meta.FindStatusCondition(status.Conditions, PodsReady); got.Reason != c.want {
			t.Errorf("%s: got %s", name, got.Reason)
		}
	}
}

func TestQuotaThatIsNotNeededIsGivenBack(t *testing.T) {
	t.Parallel()
	done := func(indexes string) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Status.CompletedIndexes = indexes }
	}
	for name, c := range map[string]struct {
		task   *v1.GPUTask
		active int
		before int32
		want   []ReclaimablePods
	}{
		"a member has succeeded, and may run again":        {newTask(done("0")), 1, 0, nil},
		"an array has one Pod left, its quota is returned": {newTask(asArray, done("0-98")), 1, 1, nil},
		"an array has more to do":                          {newTask(asArray, done("0-97")), 2, 0, nil},
		"an array has one Pod left":                        {newTask(asArray, done("0-98")), 1, 0, []ReclaimablePods{{"main", 1}}},
		"a gang has become smaller":                        {newTask(replicas(1)), 1, 0, []ReclaimablePods{{"main", 1}}},
		"a gang has become smaller, a Pod still stops":     {newTask(replicas(1)), 2, 0, nil},
		"a gang grows again":                               {newTask(replicas(2)), 1, 1, nil},
	} {
		workload := workloadOf(t, newTask(), admit, func(w *Workload) {
			if c.before > 0 {
				w.Status.ReclaimablePods = []ReclaimablePods{{"main", c.before}}
			}
		})
		step := next(t, c.task, c.active, workload)
		var got []ReclaimablePods
		if step.Status != nil {
			got = step.Status.ReclaimablePods
		}
		if !slices.Equal(c.want, got) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestAnEvictedGangMayGrowAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task *v1.GPUTask
		want []ReclaimablePods
	}{
		"a gang that has grown again": {newTask(replicas(2)), nil},
		"a gang that is smaller":      {newTask(replicas(1)), []ReclaimablePods{{"main", 1}}},
	} {
		workload := workloadOf(t, newTask(), evict, func(w *Workload) { w.Status.ReclaimablePods = []ReclaimablePods{{"main", 1}} })
		if got := next(t, c.task, 0, workload).Status.ReclaimablePods; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestTheEndSaysHow(t *testing.T) {
	t.Parallel()
	for phase, want := range map[v1.GPUTaskPhase]string{v1.PhaseSucceeded: "Succeeded", v1.PhaseFailed: "Failed"} {
		task := newTask(inPhase(phase))
		status := next(t, task, 0, workloadOf(t, task, admit)).Status
		got := meta.FindStatusCondition(status.Conditions, Finished)
		if got.Reason != want || got.Message != "message of "+string(phase) {
			t.Errorf("%s: %v", phase, got)
		}
	}
}

func TestPatchesNameTheVersionAndDropTheAdmission(t *testing.T) {
	t.Parallel()
	workload := workloadOf(t, newTask(), evict)
	bytes, err := json.Marshal(next(t, newTask(), 0, workload).Status.Patch(workload))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"resourceVersion":"7"`, `"uid":"workload-uid"`, `"admission":null`} {
		if !strings.Contains(string(bytes), part) {
			t.Errorf("%s is missing in %s", part, bytes)
		}
	}
	running := newTask(inPhase(v1.PhaseRunning))
	workload = workloadOf(t, running, admit)
	bytes, err = json.Marshal(next(t, running, 2, workload).Status.Patch(workload))
	if err != nil || strings.Contains(string(bytes), `"admission"`) {
		t.Errorf("a patch writes Kueue's admission: %s, error %v", bytes, err)
	}
	bytes, err = json.Marshal(workload.SpecPatch(workload))
	if err != nil || !strings.Contains(string(bytes), `"queueName":"team-a"`) || strings.Contains(string(bytes), "active") {
		t.Errorf("the patch of the spec is %s, error %v", bytes, err)
	}
}

// TestNothingIsWrittenTwice carries out steps until there are none, from any state.
func TestNothingIsWrittenTwice(t *testing.T) {
	t.Parallel()
	for _, phase := range []v1.GPUTaskPhase{v1.PhasePending, v1.PhaseRunning, v1.PhaseSuspended, v1.PhaseSucceeded, v1.PhaseFailed} {
		for _, change := range []func(*Workload){func(*Workload) {}, reserve, admit, evict} {
			task := newTask(inPhase(phase))
			workload := workloadOf(t, task, change)
			for range 2 {
				if step := next(t, task, 0, workload); step.Status != nil {
					workload.Status = *step.Status
				}
			}
			if step := next(t, task, 0, workload); step != (Step{}) {
				t.Errorf("phase %s, conditions %v: there is no end to %s", phase, workload.Status.Conditions, step)
			}
		}
	}
}

func TestALongMessageFits(t *testing.T) {
	t.Parallel()
	task := newTask(inPhase(v1.PhaseFailed))
	task.Status.Message = strings.Repeat("é", 40000)
	status := next(t, task, 0, workloadOf(t, task, admit)).Status
	if got := len(meta.FindStatusCondition(status.Conditions, Finished).Message); got > 32768 {
		t.Errorf("the message has %d bytes", got)
	}
}

func TestTheTimeOfAStepIsThatOfTheObservation(t *testing.T) {
	t.Parallel()
	task := newTask(inPhase(v1.PhaseSucceeded))
	status := next(t, task, 0, workloadOf(t, task, admit)).Status
	got := meta.FindStatusCondition(status.Conditions, Finished).LastTransitionTime
	if diff := cmp.Diff(now, got.UTC()); diff != "" {
		t.Error(diff)
	}
}
