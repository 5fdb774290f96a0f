// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/check"
)

func someOptions(seed uint64) *Options {
	return &Options{
		Seed: seed, Duration: 10 * time.Minute, Tenants: []Tenant{{Namespace: "a", Queue: "q"}, {Namespace: "b"}}, Hostile: "mallory", Victim: "victim", Model: "h100", GPUs: 8, Capacity: 96, Fullness: 0.8,
	}
}

func TestASeedAlwaysGivesTheSameSteps(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(Steps(someOptions(7)), Steps(someOptions(7))) {
		t.Error("the steps differ")
	}
	if reflect.DeepEqual(Steps(someOptions(7)), Steps(someOptions(8))) {
		t.Error("another seed gives the same steps")
	}
}

func TestStepsAreInOrderAndOfTasksThatExist(t *testing.T) {
	t.Parallel()
	created, suspended, ended, verbs, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}, map[string]int{}
	last := time.Duration(0)
	for _, step := range Steps(someOptions(7)) {
		name := step.Namespace + "/" + step.Name
		verbs[step.Verb]++
		switch {
		case step.At < last:
			t.Errorf("%s comes after %v", &step, last)
		case (step.Verb == VerbCreate || step.Verb == VerbAttack) && created[name]:
			t.Errorf("%s is created twice", name)
		case step.Verb != VerbCreate && step.Verb != VerbAttack && !created[name]:
			t.Errorf("%s: there is no such task", &step)
		}
		last = step.At
		switch step.Verb {
		case VerbCreate:
			created[name] = true
			kinds[step.Task.Labels[labelKind]]++
		case VerbAttack:
			created[name] = true
			kinds[attackOf(t, &step)]++
		case VerbEndAttack:
			ended[name] = true
		case VerbSuspend:
			suspended[name] = true
		case VerbResume:
			delete(suspended, name)
		}
	}
	if len(suspended) > 0 {
		t.Errorf("suspended for ever: %v", suspended)
	}
	if len(ended) != verbs[VerbAttack] {
		t.Errorf("%d of %d attacks are ended", len(ended), verbs[VerbAttack])
	}
	for _, one := range attacks() {
		if kinds[one.name] == 0 {
			t.Errorf("no attack of ten minutes %s", one.name)
		}
	}
	for _, verb := range []string{VerbCreate, VerbDelete, VerbSuspend, VerbResume, VerbScale, VerbAttack} {
		if verbs[verb] == 0 {
			t.Errorf("no step of ten minutes is %s", verb)
		}
	}
	for _, kind := range []string{"single", "share", "node", "gang", "spare", "elastic", "array", "roles", "dependent", "infeasible"} {
		if kinds[kind] == 0 {
			t.Errorf("no task of ten minutes is %s", kind)
		}
	}
}

// attackOf returns the name of an attack, which is by a task or by a Pod of the hostile tenant.
func attackOf(t *testing.T, step *Step) string {
	t.Helper()
	if step.Namespace != "mallory" || (step.Task == nil) == (step.Pod == nil) {
		t.Errorf("%s is by task %v and Pod %v", step, step.Task, step.Pod)
	}
	return step.Name[:strings.LastIndex(step.Name, "-")]
}

func TestWhatCanNeverStartIsMarked(t *testing.T) {
	t.Parallel()
	for _, step := range Steps(someOptions(7)) {
		if step.Task == nil || step.Task.Labels[labelKind] != "infeasible" {
			continue
		}
		if step.Task.Labels[check.LabelInfeasible] == "" || step.Task.Spec.Template.Labels[check.LabelInfeasible] == "" {
			t.Errorf("%s is not marked", step.Name)
		}
	}
}
