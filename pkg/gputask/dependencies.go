// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"strings"

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

// dependencyVerdict is what a task's dependencies mean for it. With neither met
// nor failed it waits.
type dependencyVerdict struct {
	met    bool
	failed bool
	// reason and message say why the task waits or fails.
	reason  string
	message string
}

// judgeDependencies looks at all dependencies of a task. A failed one decides;
// otherwise the first unmet one is what the task waits for.
func judgeDependencies(task *v1.GPUTask, lookup Lookup) dependencyVerdict {
	verdict := dependencyVerdict{met: true}
	for i := range task.Spec.DependsOn {
		one := judgeDependency(&task.Spec.DependsOn[i], lookup)
		if one.failed {
			return one
		}
		if verdict.met && !one.met {
			verdict = one
		}
	}
	if verdict.met {
		return verdict
	}
	if cycle := findCycle(task, lookup); cycle != nil {
		verdict.reason = reasonDependencyCycle
		verdict.message = fmt.Sprintf(dependencyCycleMessageFmt, strings.Join(cycle, " → "))
	}
	return verdict
}

func judgeDependency(dependency *v1.Dependency, lookup Lookup) dependencyVerdict {
	other := lookup(dependency.Name)
	if other == nil {
		return dependencyVerdict{
			reason:  reasonDependencyNotFound,
			message: fmt.Sprintf("waiting for GPUTask %q, which does not exist in this namespace", dependency.Name),
		}
	}
	switch {
	case DependencyMet(dependency, other):
		return dependencyVerdict{met: true}
	case other.Status.Phase == v1.PhaseFailed: // it can't be met any more
		return dependencyVerdict{
			failed:  true,
			reason:  v1.ReasonDependencyFailed,
			message: fmt.Sprintf("GPUTask %q, which this task depends on, failed", dependency.Name),
		}
	}
	what := map[v1.DependencyCondition]string{v1.DependencyFinished: "finish", v1.DependencyRunning: "run"}[dependency.Condition]
	return dependencyVerdict{
		reason:  reasonWaitingForTask,
		message: fmt.Sprintf("waiting for GPUTask %q to %s", dependency.Name, cmp.Or(what, "succeed")),
	}
}

// DependencyMet reports whether a task is as a dependency on it demands.
func DependencyMet(dependency *v1.Dependency, other *v1.GPUTask) bool {
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

// findCycle returns the names of the tasks on a cycle of dependencies through
// the given task, which comes first and last, or nil. Tasks that have started
// no longer look at their dependencies and so are on no cycle.
func findCycle(task *v1.GPUTask, lookup Lookup) []string {
	visited := map[string]bool{}
	var visit func(current *v1.GPUTask, path []string) []string
	visit = func(current *v1.GPUTask, path []string) []string {
		path = append(path, current.Name)
		for i := range current.Spec.DependsOn {
			name := current.Spec.DependsOn[i].Name
			if name == task.Name {
				return append(path, name)
			}
			next := lookup(name)
			if visited[name] || next == nil || hasStarted(next) || IsFinished(next) {
				continue
			}
			visited[name] = true
			if cycle := visit(next, path); cycle != nil {
				return cycle
			}
		}
		return nil
	}
	return visit(task, nil)
}

// IsFinished reports whether a task has succeeded or failed for good.
func IsFinished(task *v1.GPUTask) bool {
	return task.Status.Phase == v1.PhaseSucceeded || task.Status.Phase == v1.PhaseFailed
}

// WaitsForDependencies reports whether a task still looks at the tasks it
// depends on.
func WaitsForDependencies(task *v1.GPUTask) bool {
	return len(task.Spec.DependsOn) > 0 && !hasStarted(task) && !IsFinished(task)
}

func hasStarted(task *v1.GPUTask) bool {
	return conditionIsTrue(task.Status.Conditions, v1.ConditionDependenciesMet)
}
