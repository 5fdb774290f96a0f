// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// quiet returns a state with one of everything.
func quiet() state {
	const gpu0 = `{"version":"v1","containers":{"gpu-task":{"falldio.com/gpu":["GPU-0"]}}}`
	return state{
		pods: map[string]pod{
			"a/train": {uid: "1", task: "a/train", node: "n", phase: "Running", assignment: gpu0, started: "10:00"},
			"a/big":   {uid: "2", task: "a/big", phase: "Pending"},
			"a/other": {uid: "3", node: "n", phase: "Running", started: "10:01"},
		},
		tasks: map[string]task{
			"a/train": {uid: "4", phase: v1.PhaseRunning, counts: [4]int32{0, 1, 0, 0}, started: "10:00", conditions: map[string]string{"Running": "True since 10:00"}},
			"a/big":   {uid: "5", phase: v1.PhasePending, message: "no node has 16 GPUs", counts: [4]int32{1, 0, 0, 0}},
		},
		plans:        map[string]plan{"make-room": {phase: v1.PlanExecuting, moves: []string{"Evicted"}}},
		reservations: map[string][]reservedPlace{"n": {{plan: "make-room", place: "a/moved GPU-1"}}},
		events: map[types.UID]event{
			"6": {count: 1, eventType: corev1.EventTypeWarning, reason: "Restarting"},
			"7": {count: 3, eventType: corev1.EventTypeWarning, reason: "FailedScheduling"},
		},
	}
}

// change changes an entry of a map.
func change[K comparable, V any](m map[K]V, key K, change func(*V)) {
	value := m[key]
	change(&value)
	m[key] = value
}

func TestWhatAnUpgradeMustNotChangeIsFound(t *testing.T) {
	tests := map[string]struct {
		change func(*state)
		want   []string
	}{
		"a Pod that is gone":                  {func(s *state) { delete(s.pods, "a/train") }, []string{"Pod a/train is gone"}},
		"a Pod of another owner that is gone": {func(s *state) { delete(s.pods, "a/other") }, []string{"Pod a/other is gone"}},
		"a Pod with the name of another": {
			func(s *state) {
				change(s.pods, "a/train", func(p *pod) { *p = pod{uid: "new", task: "a/train", phase: "Running"} })
			},
			[]string{"Pod a/train was replaced by another one"},
		},
		"a second Pod of a task": {func(s *state) { s.pods["a/train-1"] = pod{uid: "8", task: "a/train"} }, []string{"Pod a/train-1 is new"}},
		"a Pod without an owner": {func(s *state) { s.pods["a/x"] = pod{uid: "8"} }, []string{"Pod a/x is new"}},
		"a Pod on another node":  {func(s *state) { change(s.pods, "a/train", func(p *pod) { p.node = "m" }) }, []string{`Pod a/train is on node "m", was on "n"`}},
		"a Pod that has ended":   {func(s *state) { change(s.pods, "a/train", func(p *pod) { p.phase = "Failed" }) }, []string{"Pod a/train is Failed, was Running"}},
		"a Pod that was started anew": {
			func(s *state) { change(s.pods, "a/train", func(p *pod) { p.started = "11:00" }) },
			[]string{`Pod a/train has started at "11:00", not at "10:00"`},
		},
		"a container that has restarted": {func(s *state) { change(s.pods, "a/train", func(p *pod) { p.restarts = 1 }) }, []string{"Pod a/train has restarted once, not 0 times"}},
		"a Pod with other GPUs": {
			func(s *state) { change(s.pods, "a/train", func(p *pod) { p.assignment = "GPU-7" }) },
			[]string{`Pod a/train has the GPUs GPU-7, had {"version":"v1","containers":{"gpu-task":{"falldio.com/gpu":["GPU-0"]}}}`},
		},
		"a Pod that is being deleted": {func(s *state) { change(s.pods, "a/train", func(p *pod) { p.leaving = true }) }, []string{"Pod a/train is being deleted: true, was false"}},
		"a task that is gone":         {func(s *state) { delete(s.tasks, "a/big") }, []string{"GPUTask a/big is gone"}},
		"a task with the name of another": {
			func(s *state) { change(s.tasks, "a/big", func(t *task) { t.uid = "new" }) }, []string{"GPUTask a/big was replaced by another one"},
		},
		"a task that has failed": {
			func(s *state) {
				change(s.tasks, "a/train", func(t *task) { t.phase, t.message = v1.PhaseFailed, "no more" })
			},
			[]string{"GPUTask a/train is Failed (no more), was Running"},
		},
		"a restart of a task":        {func(s *state) { change(s.tasks, "a/train", func(t *task) { t.restarts = 1 }) }, []string{"GPUTask a/train has restarted once, not 0 times"}},
		"a move of a task":           {func(s *state) { change(s.tasks, "a/train", func(t *task) { t.moves = 2 }) }, []string{"GPUTask a/train was moved 2 times, not 0 times"}},
		"a count of Pods":            {func(s *state) { change(s.tasks, "a/train", func(t *task) { t.counts = [4]int32{1, 0, 0, 0} }) }, []string{"GPUTask a/train has [1 0 0 0] Pods that are pending, run, have succeeded, have failed, had [0 1 0 0]"}},
		"a start that was forgotten": {func(s *state) { change(s.tasks, "a/train", func(t *task) { t.started = "" }) }, []string{`GPUTask a/train has started at "", not at "10:00"`}},
		"a wait without a reason":    {func(s *state) { change(s.tasks, "a/big", func(t *task) { t.message = "" }) }, []string{"GPUTask a/big does not say why it waits"}},
		"what changed and changed back": {
			func(s *state) {
				change(s.tasks, "a/train", func(t *task) { t.conditions = map[string]string{"Running": "True since 11:00"} })
			},
			[]string{`GPUTask a/train has the condition Running "True since 11:00", had "True since 10:00"`},
		},
		"a condition that is gone": {func(s *state) { change(s.tasks, "a/train", func(t *task) { t.conditions = nil }) }, []string{`GPUTask a/train has the condition Running "", had "True since 10:00"`}},
		"a plan that is gone":      {func(s *state) { delete(s.plans, "make-room") }, []string{"MovePlan make-room is gone"}},
		"a plan that was aborted":  {func(s *state) { change(s.plans, "make-room", func(p *plan) { p.phase = v1.PlanAborted }) }, []string{"MovePlan make-room is Aborted, was Executing"}},
		"a move that was forgotten": {
			func(s *state) { change(s.plans, "make-room", func(p *plan) { p.moves = []string{"Waiting"} }) },
			[]string{"MovePlan make-room has the moves [Waiting], had [Evicted]"},
		},
		"a second plan":         {func(s *state) { s.plans["again"] = plan{phase: v1.PlanProposed} }, []string{"MovePlan again is new"}},
		"a place given away":    {func(s *state) { delete(s.reservations, "n") }, []string{"node n keeps the places [], kept [{make-room a/moved GPU-1}]"}},
		"a place kept for none": {func(s *state) { s.reservations["m"] = []reservedPlace{{"p", "x"}} }, []string{"node m keeps the places [{p x}], kept []"}},
		"an Event of a failure": {
			func(s *state) {
				s.events["8"] = event{count: 1, kind: "GPUTask", namespace: "a", name: "train", eventType: corev1.EventTypeWarning, reason: "PodLost", text: "its node is gone"}
			},
			[]string{"Event about GPUTask a/train: PodLost: its node is gone"},
		},
		"an Event that comes again": {func(s *state) { change(s.events, "6", func(e *event) { e.count = 2 }) }, []string{"Event about  /: Restarting: "}},
		"an Event of a preemption": {
			func(s *state) {
				s.events["8"] = event{count: 1, kind: "Pod", namespace: "a", name: "train", eventType: corev1.EventTypeNormal, reason: "Preempted"}
			},
			[]string{"Event about Pod a/train: Preempted: "},
		},
		"several at once": {
			func(s *state) { delete(s.pods, "a/train"); delete(s.tasks, "a/train") },
			[]string{"GPUTask a/train is gone", "Pod a/train is gone"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			after := quiet()
			test.change(&after)
			if got := differences(quiet(), after); !slices.Equal(got, test.want) {
				t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestWhatAnUpgradeMayChangeIsNoDifference(t *testing.T) {
	tests := map[string]func(*state){
		"nothing": func(*state) {},
		"a task that was created meanwhile, with its Pods": func(s *state) {
			s.tasks["b/new"] = task{uid: "8", phase: v1.PhaseRunning}
			s.pods["b/new"] = pod{uid: "9", task: "b/new"}
		},
		"the words in which a task says why it waits": func(s *state) { change(s.tasks, "a/big", func(t *task) { t.message = "needs 16 GPUs" }) },
		"a condition that the new version adds": func(s *state) {
			change(s.tasks, "a/train", func(t *task) {
				t.conditions = map[string]string{"Running": "True since 10:00", "Stalled": "False since 11:00"}
			})
		},
		"what limits the share of a GPU, which the agent adds": func(s *state) {
			change(s.pods, "a/train", func(p *pod) {
				p.assignment = `{"version":"v1","containers":{"gpu-task":{"falldio.com/gpu":["GPU-0"]}},"enforcement":{"gpu-task":"none"}}`
			})
		},
		"that a Pod still finds no place": func(s *state) { change(s.events, "7", func(e *event) { e.count = 9 }) },
		"an Event about what goes well": func(s *state) {
			s.events["8"] = event{count: 1, eventType: corev1.EventTypeNormal, reason: "Scheduled"}
		},
		"an Event that has been cleaned up": func(s *state) { delete(s.events, "6") },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			after := quiet()
			change(&after)
			if got := differences(quiet(), after); len(got) > 0 {
				t.Errorf("found:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

func TestOnlyWhatIsExpectedToChangeIsLeftOut(t *testing.T) {
	before := quiet()
	before.pods["a/moved"] = pod{uid: "10", task: "a/moved", node: "n"}
	before.tasks["a/moved"] = task{uid: "11", phase: v1.PhaseRunning}
	after := quiet()
	after.pods["a/moved"] = pod{uid: "12", task: "a/moved", node: "m"}
	after.tasks["a/moved"] = task{uid: "11", phase: v1.PhaseRunning, moves: 1}
	change(after.plans, "make-room", func(p *plan) { p.phase = v1.PlanDone })
	after.reservations = nil
	tasks, plans := map[string]bool{"a/moved": true}, map[string]bool{"make-room": true}

	if got := differences(before.unconcerned(tasks, plans), after.unconcerned(tasks, plans)); len(got) > 0 {
		t.Errorf("found what was expected:\n%s", strings.Join(got, "\n"))
	}
	delete(after.pods, "a/train")
	if got := differences(before.unconcerned(tasks, plans), after.unconcerned(tasks, plans)); !slices.Equal(got, []string{"Pod a/train is gone"}) {
		t.Errorf("did not find what was not expected:\n%s", strings.Join(got, "\n"))
	}
	if !maps.Equal(before.pods, map[string]pod{"a/train": before.pods["a/train"], "a/big": before.pods["a/big"], "a/other": before.pods["a/other"], "a/moved": before.pods["a/moved"]}) {
		t.Error("the state itself was changed")
	}
}
