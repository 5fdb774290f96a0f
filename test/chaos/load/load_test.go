// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"reflect"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/check"
)

func someOptions(seed uint64) *Options {
	return &Options{
		Seed: seed, Duration: 10 * time.Minute, Tenants: []Tenant{{Namespace: "a", Queue: "q", OtherQueue: "r"}, {Namespace: "b"}}, Hostile: "mallory", Victim: "victim", Model: "h100", GPUs: 8, Capacity: 96, Fullness: 0.8, Nodes: []string{"n", "m"}, Probe: Probe{Namespace: "p", Node: "probe", Model: "l4", GPUs: 4},
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
	created, suspended, verbs, kinds := map[string]bool{}, map[string]bool{}, map[string]int{}, map[string]int{}
	last := time.Duration(0)
	options := someOptions(7)
	options.Hostile = ""
	for _, step := range Steps(options) {
		name := step.Namespace + "/" + step.Name
		verbs[step.Verb]++
		switch {
		case step.At < last:
			t.Errorf("%s comes after %v", &step, last)
		case step.Verb == VerbCreate && created[name]:
			t.Errorf("%s is created twice", name)
		case step.Verb != VerbCreate && step.Verb != VerbClose && step.Verb != VerbOpen && !created[name]:
			t.Errorf("%s: there is no such task", &step)
		}
		last = step.At
		switch step.Verb {
		case VerbCreate:
			created[name] = true
			kinds[step.Task.Labels[labelKind]]++
		case VerbSuspend:
			suspended[name] = true
		case VerbResume, VerbChange:
			delete(suspended, name)
		}
	}
	if len(suspended) > 0 {
		t.Errorf("suspended for ever: %v", suspended)
	}
	hasAll(t, verbs, VerbCreate, VerbDelete, VerbSuspend, VerbResume, VerbScale, VerbChange, VerbClose, VerbOpen)
	hasAll(t, kinds, "single", "share", "node", "gang", "spare", "elastic", "array", "roles", "dependent", "infeasible", "probe")
}

// hasAll checks that each of these was counted in ten minutes.
func hasAll(t *testing.T, counts map[string]int, wanted ...string) {
	t.Helper()
	for _, one := range wanted {
		if counts[one] == 0 {
			t.Errorf("in ten minutes there is no %s", one)
		}
	}
}

// What is stuck for ever holds its GPUs for ever.
func TestWhatIsStuckOnItsNodeEnds(t *testing.T) {
	t.Parallel()
	stuck, ends := map[string]bool{}, map[bool]bool{}
	for _, step := range Steps(someOptions(7)) {
		switch {
		case step.Verb == VerbDelete:
			delete(stuck, step.Name)
		case step.Verb == VerbCreate && step.Task.Spec.Template.Annotations[annotationStuckOn] != "":
			late := step.Task.Spec.Template.Annotations[annotationStuckFor] != ""
			stuck[step.Name] = step.Task.Spec.StartTimeoutSeconds == nil && !late
			ends[late] = true
		}
	}
	for name, forEver := range stuck {
		if forEver {
			t.Errorf("%s has no limit, and nobody deletes it", name)
		}
	}
	if !ends[false] || !ends[true] {
		t.Errorf("tasks of ten minutes are stuck until somebody ends that: %t, for a while: %t", ends[false], ends[true])
	}
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
