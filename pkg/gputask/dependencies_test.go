// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestDependencies(t *testing.T) {
	t.Parallel()
	on := func(name string, condition v1.DependencyCondition, action v1.DependencyFailureAction) v1.Dependency {
		return v1.Dependency{Name: name, Condition: condition, OnFailure: action}
	}
	succeeded := func(name string) v1.Dependency { return on(name, v1.DependencySucceeded, v1.DependencyFail) }
	task := func(dependencies ...v1.Dependency) taskBuilder { return makeTask("train").dependsOn(dependencies...) }
	in := func(phase v1.GPUTaskPhase) taskBuilder { return makeTask("prepare").phase(phase) }

	tests := map[string]struct {
		task   taskBuilder
		others []taskBuilder
		phase  v1.GPUTaskPhase
		// reason is that of the condition DependenciesMet, or of Failed.
		reason  string
		message string
	}{
		"a task that is not there is waited for": {
			task: task(succeeded("prepare")), phase: v1.PhaseWaiting, reason: reasonDependencyNotFound,
			message: `waiting for GPUTask "prepare", which does not exist in this namespace`,
		},
		"a task that runs has not succeeded": {
			task: task(succeeded("prepare")), others: []taskBuilder{in(v1.PhaseRunning)},
			phase: v1.PhaseWaiting, reason: reasonWaitingForTask, message: `waiting for GPUTask "prepare" to succeed`,
		},
		"most tasks wait for success": {
			task: task(v1.Dependency{Name: "prepare"}), others: []taskBuilder{in(v1.PhaseSucceeded)},
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
		"a task may wait for another to run": {
			task: task(on("prepare", v1.DependencyRunning, v1.DependencyFail)), others: []taskBuilder{in(v1.PhaseRunning)},
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
		"a task that has succeeded did run": {
			task: task(on("prepare", v1.DependencyRunning, v1.DependencyFail)), others: []taskBuilder{in(v1.PhaseSucceeded)},
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
		"a pending task does not run": {
			task: task(on("prepare", v1.DependencyRunning, v1.DependencyFail)), others: []taskBuilder{in(v1.PhasePending)},
			phase: v1.PhaseWaiting, reason: reasonWaitingForTask, message: "to run",
		},
		"a failed task is finished": {
			task: task(on("prepare", v1.DependencyFinished, v1.DependencyFail)), others: []taskBuilder{in(v1.PhaseFailed)},
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
		"a suspended task is not finished": {
			task: task(on("prepare", v1.DependencyFinished, v1.DependencyFail)), others: []taskBuilder{in(v1.PhaseSuspended)},
			phase: v1.PhaseWaiting, reason: reasonWaitingForTask, message: "to finish",
		},
		"a failed dependency fails the task": {
			task: task(succeeded("prepare")), others: []taskBuilder{in(v1.PhaseFailed)},
			phase: v1.PhaseFailed, reason: v1.ReasonDependencyFailed, message: `GPUTask "prepare", which this task depends on, failed`,
		},
		"a failed dependency can be ignored": {
			task: task(on("prepare", v1.DependencySucceeded, v1.DependencyIgnore)), others: []taskBuilder{in(v1.PhaseFailed)},
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
		"a dependency that was deleted has not failed": {
			task:   task(succeeded("prepare")),
			others: []taskBuilder{in(v1.PhaseFailed).with(deleted).condition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonDeleted)},
			phase:  v1.PhaseWaiting, reason: reasonDependencyNotFound, message: "which does not exist in this namespace",
		},
		"a failure decides even while another dependency is missing": {
			task: task(succeeded("absent"), succeeded("prepare")), others: []taskBuilder{in(v1.PhaseFailed)},
			phase: v1.PhaseFailed, reason: v1.ReasonDependencyFailed, message: "prepare",
		},
		"a cycle is shown in full": {
			task: task(succeeded("prepare")),
			others: []taskBuilder{
				makeTask("prepare").dependsOn(succeeded("fetch")),
				makeTask("fetch").dependsOn(succeeded("absent"), succeeded("train")),
			},
			phase: v1.PhaseWaiting, reason: reasonDependencyCycle,
			message: "dependency cycle train → prepare → fetch → train: delete one of these tasks",
		},
		"a cycle of other tasks is reported by them": {
			task: task(succeeded("prepare")),
			others: []taskBuilder{
				makeTask("prepare").dependsOn(succeeded("fetch")),
				makeTask("fetch").dependsOn(succeeded("prepare")),
			},
			phase: v1.PhaseWaiting, reason: reasonWaitingForTask, message: `waiting for GPUTask "prepare"`,
		},
		"a task that has started breaks the cycle": {
			task: task(succeeded("prepare")),
			others: []taskBuilder{
				makeTask("prepare").dependsOn(succeeded("train")).phase(v1.PhaseRunning).
					condition(v1.ConditionDependenciesMet, metav1.ConditionTrue, reasonDependenciesMet),
			},
			phase: v1.PhaseWaiting, reason: reasonWaitingForTask, message: "to succeed",
		},
		"once started a task no longer looks at its dependencies": {
			task:  task(succeeded("prepare")).condition(v1.ConditionDependenciesMet, metav1.ConditionTrue, reasonDependenciesMet),
			phase: v1.PhasePending, reason: reasonDependenciesMet, message: "to start",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(tc.task, nil)
			all := append(slices.Clone(tc.others), tc.task)
			in.Lookup = lookup(all...)
			var tasks []*v1.GPUTask
			for _, one := range all {
				tasks = append(tasks, one.GPUTask)
			}
			in.Cycle = Cycles(tasks)[tc.task.Name]
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Status.Phase != tc.phase {
				t.Errorf("phase %s, want %s", plan.Status.Phase, tc.phase)
			}
			if mayStart := tc.phase == v1.PhasePending; (len(plan.Create) > 0) != mayStart {
				t.Errorf("%d Pods are created, may start: %v", len(plan.Create), mayStart)
			}
			kind := v1.ConditionDependenciesMet
			if tc.phase == v1.PhaseFailed {
				kind = v1.ConditionFailed
			}
			if condition := meta.FindStatusCondition(plan.Status.Conditions, kind); condition == nil || condition.Reason != tc.reason {
				t.Errorf("condition %s is %+v, want reason %s", kind, condition, tc.reason)
			}
			if !strings.Contains(plan.Status.Message, tc.message) {
				t.Errorf("message %q does not contain %q", plan.Status.Message, tc.message)
			}
			assertStable(t, in, plan)
		})
	}
}
