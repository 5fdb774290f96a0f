// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// OnlyProgress reports whether a plan only updates how far the task's Pods are, compared
// with the given status: counts, nodes, and the messages derived from them. Such a write
// may be delayed until the next one without harm: what a plan decides follows from the Pods
// themselves. A new phase, a failure and a new cause for waiting may not.
func (p *Plan) OnlyProgress(before *v1.GPUTaskStatus) bool {
	if p.CreateService != nil || len(p.Create) > 0 || len(p.Delete) > 0 || p.DeleteTask {
		return false
	}
	if p.cause != "" && !strings.Contains(before.Message, p.cause) {
		return false
	}
	return onlyProgressInConditions(before.Conditions, p.Status.Conditions) &&
		equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(&p.Status))
}

// maxYoungAge is up to what age a task is young: nobody else has had the time to finish it
// and to delete its Pods.
const maxYoungAge = 30 * time.Second

// OnlyCreatesFirstPods reports whether a plan only creates the first Pods of a task that has no
// status yet, and of which nothing was refused. This status may be written together with the
// next one: a controller that finds the Pods without a status makes the same decision. It
// holds only for young tasks: an old task without a status may come from a stale cache,
// which writing the status would detect.
func (p *Plan) OnlyCreatesFirstPods(task *v1.GPUTask, now time.Time) bool {
	if now.Sub(task.CreationTimestamp.Time) > maxYoungAge {
		return false
	}
	if task.Status.Phase != "" || len(task.Status.Conditions) > 0 || len(task.Spec.DependsOn) > 0 || task.Spec.ActiveDeadlineSeconds != nil {
		return false
	}
	return p.Status.Phase == v1.PhasePending && p.cause == "" && len(p.Delete) == 0 && p.Status.Failed == 0 && p.Status.Restarts == 0
}

// withoutProgress returns a copy without the fields that may be stale.
func withoutProgress(status *v1.GPUTaskStatus) v1.GPUTaskStatus {
	rest := *status
	rest.Pending, rest.Running, rest.Succeeded, rest.Failed = 0, 0, 0, 0
	rest.Total, rest.CompletedIndexes, rest.Selector, rest.Nodes, rest.Roles = 0, "", "", nil, nil
	rest.Message, rest.Conditions = "", nil
	return rest
}

func onlyProgressInConditions(before, after []metav1.Condition) bool {
	if len(before) > len(after) {
		return false
	}
	for i := range after {
		if !isProgress(meta.FindStatusCondition(before, after[i].Type), &after[i]) {
			return false
		}
	}
	return true
}

// isProgress reports whether the change of a condition, nil if it was absent, need not be
// reported at once.
func isProgress(before, after *metav1.Condition) bool {
	if after.Type == v1.ConditionReconciling && before != nil && before.Status == after.Status {
		return true // the conditions that its reason sums up decide
	}
	if after.Type == v1.ConditionScheduled && after.Status == metav1.ConditionTrue {
		return true // the Pods' containers start next
	}
	if before == nil || before.Status != after.Status {
		return false
	}
	switch after.Type {
	case v1.ConditionScheduled, v1.ConditionPodsCreated: // the same cause with another message
		return before.Reason == after.Reason
	case v1.ConditionRunning: // more or fewer Pods
		return before.Status == metav1.ConditionTrue || before.Reason == after.Reason
	default:
		return before.Reason == after.Reason && before.Message == after.Message
	}
}
