// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"cmp"
	"fmt"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Reasons of Events of tasks.
const (
	eventRescheduling = "Rescheduling"
	eventRescheduled  = "Rescheduled"
	eventMoved        = "Moved"
)

// events returns the Events for a change from a plan's status to the next one.
func events(plan *v1.MovePlan, after *v1.MovePlanStatus) []Event {
	var list []Event
	if plan.Status.Phase == "" && after.Phase != v1.PlanProposed {
		list = append(list, Event{Reason: string(v1.PlanProposed), Message: proposal(plan)})
	}
	if after.Phase != plan.Status.Phase {
		list = append(list, Event{Warning: after.Phase == v1.PlanAborted, Reason: string(after.Phase), Message: phaseText(plan, after)})
	}
	for i := range after.Moves {
		if i >= len(plan.Status.Moves) || after.Moves[i].State == plan.Status.Moves[i].State {
			continue
		}
		move, record := &plan.Spec.Moves[i], &after.Moves[i]
		task := &move.Task
		switch record.State {
		case v1.MoveEvicted:
			list = append(list, Event{Task: task, Reason: eventRescheduling, Message: fmt.Sprintf("Pod %s leaves node %s%s: %s (MovePlan %s)",
				move.Pod, move.From.Node, toNode("for", move.To.Node), cmp.Or(move.Reason, plan.Spec.Reason), plan.Name)})
		case v1.MoveMoved, v1.MoveElsewhere:
			text := fmt.Sprintf("Pod %s went from node %s to node %s", move.Pod, move.From.Node, record.Node)
			list = append(list,
				Event{Task: task, Reason: eventRescheduled, Message: text + " (MovePlan " + plan.Name + ")"},
				Event{Warning: record.State == v1.MoveElsewhere, Reason: eventMoved, Message: text})
		case v1.MoveWaiting, v1.MoveSkipped:
		}
	}
	return list
}

func phaseText(plan *v1.MovePlan, after *v1.MovePlanStatus) string {
	if after.Phase == v1.PlanProposed {
		return proposal(plan)
	}
	return after.Message
}

func proposal(plan *v1.MovePlan) string {
	return fmt.Sprintf("%s (cost %d GPU-seconds)", plan.Spec.Reason, plan.Spec.CostGPUSeconds)
}
