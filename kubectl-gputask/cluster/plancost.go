// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// CurrentCost returns what the moves of a plan that may still be approved would cost now; nil if that is not known, as
// for who may not read the tasks.
func CurrentCost(ctx context.Context, clients *Clients, plan *v1.MovePlan, now time.Time) *reschedule.Cost {
	if !moveplan.MayBeApproved(plan) {
		return nil
	}
	members, read := map[string]*clusterview.Member{}, map[v1.TaskReference]bool{}
	for i := range plan.Spec.Moves {
		of := plan.Spec.Moves[i].Task
		if read[of] {
			continue
		}
		read[of] = true
		task, err := clients.Tasks.FalldioV1().GPUTasks(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		pods, err := PodsOf(ctx, clients, task)
		if err != nil {
			return nil
		}
		for _, pod := range pods {
			members[string(pod.UID)] = reschedule.NewMember(task, pod)
		}
	}
	if cost, known := reschedule.CurrentCost(plan, func(uid string) *clusterview.Member { return members[uid] }, now); known {
		return &cost
	}
	return nil
}
