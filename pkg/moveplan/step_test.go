// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, test := range stepTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			for _, change := range test.given {
				change(m)
			}
			in := m.input()
			in.Objects.Now, in.Tries = m.now, m.tries
			in.Drift = &Drift{}
			if test.change != nil {
				test.change(in)
			}
			before := in.Plan.DeepCopy()
			out, err := Step(*in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, in.Plan); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			test.check(t, out)
		})
	}
}

func (test *stepTest) check(t *testing.T, out Output) {
	t.Helper()
	var ask, evict, count []string
	for _, pod := range out.AskForCheckpoint {
		ask = append(ask, pod.Name)
	}
	for _, pod := range out.Evict {
		evict = append(evict, pod.Name)
	}
	for i := range out.Count {
		count = append(count, out.Count[i].Name)
	}
	if diff := cmp.Diff(test.ask, ask); diff != "" {
		t.Errorf("asked for a checkpoint (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(test.evict, evict); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(test.count, count); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if test.again != (out.RequeueAfter > 0) {
		t.Errorf("look again after %v", out.RequeueAfter)
	}
	if changes := out.Status != nil; changes != (test.phase != "") {
		t.Errorf("the status changes: %t, to %+v", changes, out.Status)
	} else if changes {
		test.checkStatus(t, out.Status)
	}
}

func (test *stepTest) checkStatus(t *testing.T, status *v1.MovePlanStatus) {
	t.Helper()
	var states []v1.MoveState
	for i := range status.Moves {
		states = append(states, status.Moves[i].State)
		if status.Moves[i].State == waiting && status.Moves[i].EvictedAt != nil {
			t.Errorf("move %d waits and was evicted", i)
		}
	}
	if diff := cmp.Diff(test.states, states); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if status.Phase != test.phase || status.Reason != test.reason || !strings.Contains(status.Message, test.message) {
		t.Errorf("%s, reason %q, message %q; want %s, %q, %q", status.Phase, status.Reason, status.Message, test.phase, test.reason, test.message)
	}
	final := test.phase == v1.PlanDone || test.phase == v1.PlanAborted
	if final != (status.CompletionTime != nil) || (final && strings.Contains(status.Message, waitText)) {
		t.Errorf("completed at %v: %s", status.CompletionTime, status.Message)
	}
}

func TestAPlanWaitsForOthers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		phase v1.MovePlanPhase
		age   time.Duration
		waits bool
	}{
		"for one that is carried out":            {v1.PlanExecuting, -time.Hour, true},
		"for one that was approved and is older": {v1.PlanApproved, time.Hour, true},
		"not for a younger one":                  {v1.PlanApproved, -time.Hour, false},
		"not for a proposal":                     {v1.PlanProposed, time.Hour, false},
		"not for one that is done":               {v1.PlanDone, time.Hour, false},
		"not for one that is aborted":            {v1.PlanAborted, time.Hour, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			at(v1.PlanApproved, waiting, waiting, waiting)(m)
			m.plan.CreationTimestamp = metav1.NewTime(testTime)
			in := m.input()
			in.Objects.Now = m.now
			other := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other", CreationTimestamp: metav1.NewTime(testTime.Add(-test.age))}}
			other.Status.Phase = test.phase
			in.Objects.Plans = append(in.Objects.Plans, other)
			out, err := m.step(in)
			if err != nil {
				t.Fatal(err)
			}
			if waits := out.Status == nil; waits != test.waits || (waits && out.RequeueAfter == 0) {
				t.Errorf("it waits: %t, looks again after %v", waits, out.RequeueAfter)
			}
		})
	}
}

func TestNothingHappensWhileDriftIsUnknown(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	at(v1.PlanExecuting, waiting, waiting, waiting)(m)
	m.reserve()
	in := m.input()
	in.Objects.Now = m.now
	in.Drift = &Drift{Err: errors.New("the API server is away")}
	out, err := m.step(in)
	if err == nil || !strings.Contains(err.Error(), "MovePlan plan: the API server is away") {
		t.Errorf("error %v", err)
	}
	if out.Status != nil || len(out.Evict) > 0 {
		t.Errorf("output %+v", out)
	}
}

func TestAPlanEndsIfDriftIsNeverKnown(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	at(v1.PlanExecuting, waiting, waiting, waiting)(m)
	later(int((moveTimeout + 40*time.Second) / time.Second))(m)
	m.reserve()
	in := m.input()
	in.Objects.Now = m.now
	in.Drift = &Drift{Err: errors.New("no rights")}
	out, err := m.step(in)
	if err != nil || out.Status == nil || out.Status.Phase != v1.PlanAborted || out.Status.Reason != ReasonTimedOut || !strings.Contains(out.Status.Message, "no rights") {
		t.Errorf("error %v, status %+v", err, out.Status)
	}
}

func TestReservationsAreLookedAtBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	states := map[string][]func(*model){
		"while Pods are on their way": {at(v1.PlanExecuting, evicted, evicted, waiting), leaving("gang-0"), leaving("gang-1"), counted("gang")},
		"while the task is waited for": {at(v1.PlanExecuting, moved, moved, moved), allReplaced, counted("gang", "single"), func(m *model) {
			m.plan.Status.Message = "3 Pods moved; waits for GPUTask default/pending to start"
		}},
		"while a plan is stopping": {at(v1.PlanExecuting, evicted, skipped, skipped), stopping, gone("gang-0"), again("gang", 0, "", corev1.PodPending), counted("gang")},
	}
	for name, given := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			for _, change := range given {
				change(m)
			}
			in := m.input()
			in.Objects.Now, in.Tries = m.now, m.tries
			in.Drift = &Drift{}
			out, err := m.step(in)
			if err != nil || out.Status != nil {
				t.Fatalf("error %v, status %+v", err, out.Status)
			}
			m.reserve()
			for _, node := range m.nodes {
				list, err := reservation.Of(node)
				if err != nil {
					t.Fatal(err)
				}
				for i := range list {
					// They are unchanged until half of their time has passed.
					if half := list[i].Until.Sub(m.now) / 2; out.RequeueAfter == 0 || out.RequeueAfter >= half {
						t.Errorf("%s may have %v left, and is looked at after %v", list[i].Pod, half, out.RequeueAfter)
					}
				}
			}
		})
	}
}

func TestTheRestOfAPlanIsChecked(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	at(v1.PlanExecuting, moved, moved, waiting)(m)
	replaced(m)
	counted("gang")(m)
	m.reserve()
	in := m.input()
	in.Objects.Now = m.now
	first, err := Step(*in)
	if err != nil || first.CheckDrift == nil || first.Status != nil {
		t.Fatalf("error %v, output %+v; want the check of the rest", err, first)
	}
	var checked []string
	for i := range first.CheckDrift.Spec.Moves {
		checked = append(checked, first.CheckDrift.Spec.Moves[i].Pod)
	}
	in.Lost = func(_ *v1.GPUTask, pod *corev1.Pod) int64 { return int64(len(pod.Name)) }
	out, err := m.step(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"single"}, checked); diff != "" {
		t.Errorf("moves that are to be checked (-want +got):\n%s", diff)
	}
	if out.Status == nil || out.Status.Moves[single].LostGPUSeconds != int64(len("single")) {
		t.Errorf("status %+v, want what is lost now", out.Status)
	}
}

func TestALongGracePeriodMakesATurnLonger(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	m.tasks["gang"].Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(3600))}}
	at(v1.PlanExecuting, evicted, evicted, waiting)(m)
	leaving("gang-0")(m)
	leaving("gang-1")(m)
	counted("gang")(m)
	for _, test := range []struct {
		after time.Duration
		late  bool
	}{{time.Hour, false}, {time.Hour + moveTimeout + lostPodPause, true}} {
		in := m.input()
		in.Objects.Now = testTime.Add(test.after)
		out, err := m.step(in)
		if err != nil {
			t.Fatal(err)
		}
		if late := out.Status != nil; late != test.late {
			t.Errorf("after %v it is late: %t", test.after, late)
		}
	}
}

func TestWhatAPlanTells(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	tell := func(phase v1.MovePlanPhase, change func(*v1.MovePlanStatus), states ...v1.MoveState) []string {
		at(phase, states...)(m)
		after := m.plan.Status.DeepCopy()
		change(after)
		var texts []string
		for _, event := range events(m.plan, after) {
			about := "plan"
			if event.Task != nil {
				about = event.Task.Name
			}
			if event.Warning {
				about += "!"
			}
			texts = append(texts, about+" "+event.Reason+": "+event.Message)
		}
		return texts
	}
	tests := map[string]struct{ got, want []string }{
		"an eviction": {
			tell(v1.PlanExecuting, func(s *v1.MovePlanStatus) { s.Moves[single].State = evicted }, moved, moved, waiting),
			[]string{"single Rescheduling: Pod single leaves node n0 for node n1: an example (MovePlan plan)"},
		},
		"an arrival": {
			tell(v1.PlanExecuting, func(s *v1.MovePlanStatus) { s.Moves[single].State, s.Moves[single].Node = moved, "n1" }, moved, moved, evicted),
			[]string{"single Rescheduled: Pod single went from node n0 to node n1 (MovePlan plan)", "plan Moved: Pod single went from node n0 to node n1"},
		},
		"an arrival elsewhere": {
			tell(v1.PlanExecuting, func(s *v1.MovePlanStatus) { s.Moves[single].State, s.Moves[single].Node = elsewhere, "n2" }, moved, moved, evicted),
			[]string{"single Rescheduled: Pod single went from node n0 to node n2 (MovePlan plan)", "plan! Moved: Pod single went from node n0 to node n2"},
		},
		"an end": {
			tell(v1.PlanExecuting, func(s *v1.MovePlanStatus) { s.Phase, s.Message = v1.PlanAborted, "why" }, moved, moved, skipped),
			[]string{"plan! Aborted: why"},
		},
		"a proposal": {
			tell("", func(s *v1.MovePlanStatus) { s.Phase = v1.PlanProposed }),
			[]string{"plan Proposed: an example (cost 0 GPU-seconds)"},
		},
		"a proposal that is approved at once": {
			tell("", func(s *v1.MovePlanStatus) { s.Phase, s.Message = v1.PlanApproved, "approved" }),
			[]string{"plan Proposed: an example (cost 0 GPU-seconds)", "plan Approved: approved"},
		},
		"nothing new": {tell(v1.PlanExecuting, func(*v1.MovePlanStatus) {}, moved, moved, waiting), nil},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatAPlanHasBrought(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given []func(*model)
		want  *v1.MoveGain
	}{
		"the GPUs of the task":           {[]func(*model){at(v1.PlanExecuting, moved, moved, moved), allReplaced, startedPending, counted("gang", "single")}, &v1.MoveGain{GPUs: 4}},
		"nothing for a task that is out": {[]func(*model){at(v1.PlanExecuting, moved, moved, moved), allReplaced, counted("gang", "single"), later(200)}, &v1.MoveGain{}},
		"the plan's estimate":            {[]func(*model){forCapacity, at(v1.PlanExecuting, moved, moved, moved), allReplaced, counted("gang", "single")}, &v1.MoveGain{GPUs: 2, Nodes: []string{"n0"}}},
		"a part of it":                   {[]func(*model){forCapacity, at(v1.PlanExecuting, moved, moved, waiting), replaced, counted("gang"), abort}, &v1.MoveGain{}},
		"nothing without moves":          {[]func(*model){forCapacity, at(v1.PlanExecuting, waiting, waiting, waiting), abort}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			for _, change := range test.given {
				change(m)
			}
			in := m.input()
			in.Objects.Now = m.now
			out, err := m.step(in)
			if err != nil {
				t.Fatal(err)
			}
			if out.Status == nil || out.Status.CompletionTime == nil {
				t.Fatalf("status %+v, want the end", out.Status)
			}
			if diff := cmp.Diff(test.want, out.Status.Gain); diff != "" {
				t.Errorf("gain (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheReasonToWaitIsNoPartOfTheFinalMessage(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"Pod default/a found no node in time",
		"Pod default/a found no node in time" + waitText,
		"Pod default/a found no node in time; waiting for the Pods that are on their way", // written by an earlier version
	} {
		if got, want := trimWait(message), "Pod default/a found no node in time"; got != want {
			t.Errorf("%q became %q, want %q", message, got, want)
		}
	}
}
