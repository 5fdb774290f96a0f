// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// repairs are the Pods that this process has moved without a plan within the last hour. They count
// in the budgets beside those that plans record.
type repairs []repaired

type repaired struct {
	at        time.Time
	namespace string
	// lost is the work that was lost, in GPU-seconds.
	lost int64
}

func (l *repairs) add(move reschedule.Move, now time.Time) {
	for _, pod := range move.Pods {
		*l = append(*l, repaired{at: now, namespace: pod.Namespace, lost: reschedule.Lost(move.Task, pod, now)})
	}
}

// record adds the repairs of the last hour to a ledger, and forgets the others.
func (l *repairs) record(ledger *reschedule.Ledger, now time.Time) {
	*l = slices.DeleteFunc(*l, func(pod repaired) bool { return now.Sub(pod.at) >= reschedule.LedgerPeriod })
	for _, pod := range *l {
		ledger.Record(pod.namespace, pod.lost)
	}
}

// newPlanner returns a planner for what the rescheduler sees.
func (r *Rescheduler) newPlanner(objects *clusterview.Objects) *reschedule.Planner {
	planner := reschedule.NewPlanner(clusterview.New(objects), &r.options.Planner)
	r.repairs.record(planner.Ledger, objects.Now)
	return planner
}

// overBudget returns which budget the move of a task would exceed; "" if it exceeds none.
func (r *Rescheduler) overBudget(objects *clusterview.Objects, move reschedule.Move) string {
	ledger := reschedule.NewLedger(objects.Plans, objects.Now)
	r.repairs.record(ledger, objects.Now)
	return r.exceededBudget(ledger, len(move.Pods), []evictedTask{{move.Task, move.Pods}}, objects.Now)
}

// evictedTask is a task with those of its Pods that are to be evicted.
type evictedTask struct {
	task *v1.GPUTask
	pods []*corev1.Pod
}

// exceededBudget returns which budget a number of moves would exceed; "" if they exceed none. It
// counts the work that would be lost now: more than was planned if a plan has waited for approval.
func (r *Rescheduler) exceededBudget(ledger *reschedule.Ledger, moves int, tasks []evictedTask, now time.Time) string {
	if left, limited := ledger.MovesLeft(&r.options.Planner); limited && left < moves {
		return fmt.Sprintf("%s to be moved, %d of %d are left in this hour", plural.Count(moves, "Pod")+plural.Verb(moves, " is", " are"), left, r.options.Planner.MovesPerHour)
	}
	lost := map[string]int64{}
	for _, evicted := range tasks {
		for _, pod := range evicted.pods {
			lost[pod.Namespace] += reschedule.Lost(evicted.task, pod, now)
		}
	}
	for namespace, seconds := range lost {
		if left, limited := ledger.GPUSecondsLeft(&r.options.Planner, namespace); limited && left < seconds {
			return fmt.Sprintf("%d GPU-minutes of namespace %s would be lost, %d of %d are left in this hour",
				seconds/60, namespace, left/60, r.options.Planner.GPUMinutesPerHour)
		}
	}
	return ""
}
