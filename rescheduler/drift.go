// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// drift checks whether the rest of a plan can still be carried out as it was planned.
func (r *Rescheduler) drift(rest *v1.MovePlan) *moveplan.Drift {
	objects, err := r.gatherAll()
	if err != nil {
		return &moveplan.Drift{Err: err}
	}
	planner := r.newPlanner(objects)
	if err := reschedule.Valid(planner, rest, 0); err != nil {
		return &moveplan.Drift{Why: err.Error()}
	}
	return &moveplan.Drift{Why: r.exceededBudget(planner.Ledger, len(rest.Spec.Moves), evictedBy(rest, objects.Tasks), objects.Now)}
}

// evictedBy returns the tasks of which a plan evicts Pods, with these.
func evictedBy(plan *v1.MovePlan, tasks []clusterview.Task) []evictedTask {
	moved := podsMovedBy(plan)
	var list []evictedTask
	for i := range tasks {
		if pods := slices.DeleteFunc(slices.Clone(tasks[i].Pods), func(pod *corev1.Pod) bool { return !moved.Has(pod.UID) }); len(pods) > 0 {
			list = append(list, evictedTask{tasks[i].GPUTask, pods})
		}
	}
	return list
}
