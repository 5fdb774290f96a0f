// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// state is what must survive: what runs, what waits, what is being moved. Pods, tasks and plans
// have the keys "namespace/name" or "name".
type state struct {
	pods  map[string]pod
	tasks map[string]task
	plans map[string]plan
	// reservations are who is to get what, by node, without until when.
	reservations map[string][]reservedPlace
	// events are the Events by UID.
	events map[types.UID]event
}

type pod struct {
	uid types.UID
	// task is the key of the GPUTask; empty for Pods of others.
	task, node, phase string
	// assignment is the annotation with its GPUs, started the time of its start.
	assignment, started string
	restarts            int32
	leaving             bool
}

type task struct {
	uid             types.UID
	phase           v1.GPUTaskPhase
	message         string
	restarts, moves int32
	// counts are how many Pods are pending, run, have succeeded and have failed.
	counts [4]int32
	// started is when the task first ran.
	started string
	// conditions are the statuses of the conditions, each with the time since when it has it: what
	// has changed and changed back shows there.
	conditions map[string]string
}

type plan struct {
	phase v1.MovePlanPhase
	// moves are the states of its moves.
	moves []string
}

type reservedPlace struct{ plan, place string }

type event struct {
	count                                          int32
	kind, namespace, name, eventType, reason, text string
}

// unconcerned returns a copy without the tasks and plans that are expected to change, and what belongs to them.
func (s state) unconcerned(tasks, plans map[string]bool) state {
	result := state{pods: maps.Clone(s.pods), tasks: maps.Clone(s.tasks), plans: maps.Clone(s.plans), events: s.events, reservations: map[string][]reservedPlace{}}
	maps.DeleteFunc(result.pods, func(_ string, p pod) bool { return tasks[p.task] })
	maps.DeleteFunc(result.tasks, func(key string, _ task) bool { return tasks[key] })
	maps.DeleteFunc(result.plans, func(name string, _ plan) bool { return plans[name] })
	for node, places := range s.reservations {
		left := slices.DeleteFunc(slices.Clone(places), func(r reservedPlace) bool { return plans[r.plan] })
		if len(left) > 0 {
			result.reservations[node] = left
		}
	}
	return result
}

// differences returns what an upgrade must not change but has changed, sorted. What is new belongs to
// new tasks: their Pods are no difference, any others are.
func differences(before, after state) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for key, was := range before.pods {
		is, exists := after.pods[key]
		if !exists {
			add("Pod %s is gone", key)
			continue
		}
		comparePods(was, is, func(format string, args ...any) { add("Pod "+key+" "+format, args...) })
	}
	for key, is := range after.pods {
		_, existed := before.pods[key]
		_, ofKnown := before.tasks[is.task]
		if !existed && (ofKnown || is.task == "") {
			add("Pod %s is new", key)
		}
	}
	for key, was := range before.tasks {
		is, exists := after.tasks[key]
		if !exists {
			add("GPUTask %s is gone", key)
			continue
		}
		compareTasks(was, is, func(format string, args ...any) { add("GPUTask "+key+" "+format, args...) })
	}
	comparePlans(before, after, add)
	compareReservations(before, after, add)
	for id, is := range after.events {
		if is.count > before.events[id].count && is.isFailure() {
			add("Event about %s %s/%s: %s: %s", is.kind, is.namespace, is.name, is.reason, is.text)
		}
	}
	slices.Sort(found)
	return found
}

func comparePods(was, is pod, add func(string, ...any)) {
	if is.uid != was.uid {
		add("was replaced by another one")
		return
	}
	if is.node != was.node {
		add("is on node %q, was on %q", is.node, was.node)
	}
	if is.phase != was.phase {
		add("is %s, was %s", is.phase, was.phase)
	}
	if is.started != was.started {
		add("has started at %q, not at %q", is.started, was.started)
	}
	if is.restarts != was.restarts {
		add("has restarted %s, not %s", times(is.restarts), times(was.restarts))
	}
	if !inventory.SameDevices(was.assignment, is.assignment) {
		add("has the GPUs %s, had %s", is.assignment, was.assignment)
	}
	if is.leaving != was.leaving {
		add("is being deleted: %t, was %t", is.leaving, was.leaving)
	}
}

func compareTasks(was, is task, add func(string, ...any)) {
	if is.uid != was.uid {
		add("was replaced by another one")
		return
	}
	if is.phase != was.phase {
		add("is %s (%s), was %s", is.phase, is.message, was.phase)
	}
	if is.restarts != was.restarts {
		add("has restarted %s, not %s", times(is.restarts), times(was.restarts))
	}
	if is.moves != was.moves {
		add("was moved %s, not %s", times(is.moves), times(was.moves))
	}
	if is.counts != was.counts {
		add("has %v Pods that are pending, run, have succeeded, have failed, had %v", is.counts, was.counts)
	}
	if is.started != was.started {
		add("has started at %q, not at %q", is.started, was.started)
	}
	if is.message == "" && waits(is.phase) {
		add("does not say why it waits")
	}
	for _, kind := range slices.Sorted(maps.Keys(was.conditions)) {
		if is.conditions[kind] != was.conditions[kind] {
			add("has the condition %s %q, had %q", kind, is.conditions[kind], was.conditions[kind])
		}
	}
}

// times returns how often something has happened, in words.
func times(count int32) string {
	if count == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", count)
}

func waits(phase v1.GPUTaskPhase) bool { return phase == v1.PhaseWaiting || phase == v1.PhasePending }

func comparePlans(before, after state, add func(string, ...any)) {
	for name, was := range before.plans {
		is, exists := after.plans[name]
		switch {
		case !exists:
			add("MovePlan %s is gone", name)
		case is.phase != was.phase:
			add("MovePlan %s is %s, was %s", name, is.phase, was.phase)
		case !slices.Equal(is.moves, was.moves):
			add("MovePlan %s has the moves %v, had %v", name, is.moves, was.moves)
		}
	}
	for name := range after.plans {
		if _, existed := before.plans[name]; !existed {
			add("MovePlan %s is new", name)
		}
	}
}

func compareReservations(before, after state, add func(string, ...any)) {
	for node := range union(before.reservations, after.reservations) {
		if was, is := before.reservations[node], after.reservations[node]; !slices.Equal(was, is) {
			add("node %s keeps the places %v, kept %v", node, is, was)
		}
	}
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}

// disruptions are the reasons of Events of type Normal that say that something running was stopped.
var disruptions = []string{"Preempted", "Rescheduling", "TaintManagerEviction", "Killing", "Suspended"}

// isFailure reports whether an Event says that something has gone wrong or was stopped. That a Pod still
// finds no place is neither.
func (e event) isFailure() bool {
	if e.eventType == corev1.EventTypeWarning {
		return e.reason != "FailedScheduling"
	}
	return slices.Contains(disruptions, e.reason)
}
