// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Lookup finds another task of the same namespace by its name. It returns nil
// if there is none.
type Lookup func(name string) *v1.GPUTask

// Reasons of the condition DependenciesMet.
const (
	reasonDependenciesMet     = "DependenciesMet"
	reasonWaitingForTask      = "WaitingForDependency"
	reasonDependencyNotFound  = "DependencyNotFound"
	reasonDependencyCycle     = "DependencyCycle"
	dependencyCycleMessageFmt = "dependency cycle %s: delete one of these tasks"
)

// dependencyState is the state of a task's dependencies. If they are neither met nor
// failed, the task waits.
type dependencyState struct {
	met    bool
	failed bool
	// reason and message explain why the task waits or fails.
	reason  string
	message string
}

// checkDependencies checks all dependencies of a task. A failed one takes precedence;
// otherwise the task waits for the first unmet one. cycle is a cycle of dependencies that the
// task is on, as Cycles returns it; nil if it is on none.
func checkDependencies(task *v1.GPUTask, lookup Lookup, cycle []string) dependencyState {
	state := dependencyState{met: true}
	for i := range task.Spec.DependsOn {
		one := checkDependency(&task.Spec.DependsOn[i], lookup)
		if one.failed {
			return one
		}
		if state.met && !one.met {
			state = one
		}
	}
	if state.met {
		return state
	}
	if cycle != nil {
		state.reason = reasonDependencyCycle
		state.message = fmt.Sprintf(dependencyCycleMessageFmt, strings.Join(cycle, " → "))
	}
	return state
}

func checkDependency(dependency *v1.Dependency, lookup Lookup) dependencyState {
	other := lookup(dependency.Name)
	if other == nil || wasDeleted(other) {
		return dependencyState{
			reason:  reasonDependencyNotFound,
			message: fmt.Sprintf("waiting for GPUTask %q, which does not exist in this namespace", dependency.Name),
		}
	}
	switch {
	case DependencyMet(dependency, other):
		return dependencyState{met: true}
	case other.Status.Phase == v1.PhaseFailed: // it can no longer be met
		return dependencyState{
			failed:  true,
			reason:  v1.ReasonDependencyFailed,
			message: fmt.Sprintf("GPUTask %q, which this task depends on, failed", dependency.Name),
		}
	}
	what := map[v1.DependencyCondition]string{v1.DependencyFinished: "finish", v1.DependencyRunning: "run"}[dependency.Condition]
	return dependencyState{
		reason:  reasonWaitingForTask,
		message: fmt.Sprintf("waiting for GPUTask %q to %s", dependency.Name, cmp.Or(what, "succeed")),
	}
}

// wasDeleted reports whether a task has only ended because somebody has deleted it: who depends on it
// waits, as if it did not exist, for another one of its name.
func wasDeleted(task *v1.GPUTask) bool {
	failed := meta.FindStatusCondition(task.Status.Conditions, v1.ConditionFailed)
	return failed != nil && failed.Reason == v1.ReasonDeleted
}

// DependencyMet reports whether a task satisfies a dependency on it.
func DependencyMet(dependency *v1.Dependency, other *v1.GPUTask) bool {
	if wasDeleted(other) {
		return false
	}
	phase := other.Status.Phase
	if phase == v1.PhaseFailed && dependency.OnFailure == v1.DependencyIgnore {
		return true
	}
	switch dependency.Condition {
	case v1.DependencyFinished:
		return IsFinished(other)
	case v1.DependencyRunning:
		return phase == v1.PhaseRunning || phase == v1.PhaseSucceeded
	default: // v1.DependencySucceeded is the schema's default
		return phase == v1.PhaseSucceeded
	}
}

// IsFinished reports whether a task has succeeded or failed for good.
func IsFinished(task *v1.GPUTask) bool {
	return task.Status.Phase == v1.PhaseSucceeded || task.Status.Phase == v1.PhaseFailed
}

// WaitsForDependencies reports whether a task still depends on others: it has dependencies,
// and has neither started nor finished.
func WaitsForDependencies(task *v1.GPUTask) bool {
	return len(task.Spec.DependsOn) > 0 && !hasStarted(task) && !IsFinished(task)
}

func hasStarted(task *v1.GPUTask) bool {
	return meta.IsStatusConditionTrue(task.Status.Conditions, v1.ConditionDependenciesMet)
}
