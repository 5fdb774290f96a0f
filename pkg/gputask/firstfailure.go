// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// nameFirstFailure has a task that stops or restarts as a whole name the member that failed first. Nodes report the
// ends of Pods in any order, and where one member fails, others fail because of it: what is reported first need not be
// where it began. It ended first by the clocks of the nodes.
func (d *decision) nameFirstFailure() {
	condition := d.failureCondition()
	if condition == nil {
		return
	}
	var first, named *member
	for _, m := range d.members {
		if m.pod == nil || m.state != podFailed || d.actionFor(m) != v1.ActionRestartTask {
			continue
		}
		if strings.HasPrefix(condition.Message, failureOf(m.pod)) {
			named = m
		}
		if first == nil || byEnd(m, first) < 0 {
			first = m
		}
	}
	if named == nil || byEnd(first, named) >= 0 {
		return
	}
	message := failureOf(first.pod) + strings.TrimPrefix(condition.Message, failureOf(named.pod))
	d.setCondition(condition.Type, condition.Status, condition.Reason, message)
	d.acquitNode(named.pod.Spec.NodeName)
	d.rememberNode(first.pod.Spec.NodeName, *d.lastEnd([]*member{first}))
	d.forgetNodes()
}

// failureCondition returns the condition that names the member because of which the whole task stops or restarts, nil
// if there is none.
func (d *decision) failureCondition() *metav1.Condition {
	if target := meta.FindStatusCondition(d.status.Conditions, v1.ConditionFailureTarget); target != nil && target.Reason == v1.ReasonBackoffLimitExceeded {
		return target
	}
	if running := meta.FindStatusCondition(d.status.Conditions, v1.ConditionRunning); running != nil && running.Reason == reasonRestarting {
		return running
	}
	return nil
}

// byEnd orders failed members by when they ended; last are those of which nobody knows it.
func byEnd(a, b *member) int {
	endA, endB := endOf(a.pod), endOf(b.pod)
	switch {
	case endA.IsZero() == endB.IsZero():
		return endA.Compare(endB)
	case endA.IsZero():
		return 1
	default:
		return -1
	}
}
