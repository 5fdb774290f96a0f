// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// hasSucceeded reports whether all members have succeeded, or those that a rule of the success
// policy asks for.
func (d *decision) hasSucceeded() bool {
	if d.countSucceeded() == len(d.members) {
		return true
	}
	policy := d.Task.Spec.SuccessPolicy
	return policy != nil && slices.ContainsFunc(policy.Rules, d.ruleIsMet)
}

// ruleIsMet reports whether enough of the members that a rule is about have succeeded. Indexes
// that do not exist never succeed.
func (d *decision) ruleIsMet(rule v1.SuccessRule) bool {
	indexes, err := parseIndexes(rule.SucceededIndexes)
	if err != nil {
		return false // can't happen: the schema admits only indexes
	}
	wanted, succeeded := len(indexes), 0
	for _, m := range d.members {
		if rule.Role != "" && rule.Role != m.role.Name {
			continue
		}
		index := m.index
		if rule.Role != "" {
			index -= m.role.First
		}
		if rule.SucceededIndexes == "" {
			wanted++
		} else if !indexes.has(index) {
			continue
		}
		if m.succeeded {
			succeeded++
		}
	}
	if rule.SucceededCount != nil {
		wanted = int(*rule.SucceededCount)
	}
	return wanted > 0 && succeeded >= wanted
}

// HasSucceeded reports whether the member whose Pod has that name has succeeded: it gets no
// other Pod.
func HasSucceeded(task *v1.GPUTask, pod string) bool {
	index, found := memberIndex(task, Roles(task), pod)
	return found && containsIndex(task.Status.CompletedIndexes, index)
}

// HasUncountedSuccess reports whether a Pod has succeeded in the current attempt of its member, and
// the task's status does not tell of it.
func HasUncountedSuccess(task *v1.GPUTask, pod *corev1.Pod) bool {
	if IsFinished(task) || outcomeOf(pod) != podSucceeded {
		return false
	}
	index, found := memberIndex(task, Roles(task), pod.Name)
	return found && podAttempt(pod) == currentStart(task, &task.Status, index).attempt && !containsIndex(task.Status.CompletedIndexes, index)
}
