// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// MovesOf converts the engine's moves to those of a MovePlan. reason returns why a Pod is
// moved; nil for no reasons.
func (p *Planner) MovesOf(moves []placement.Move, reason func(*placement.Move) string) []v1.Move {
	list := make([]v1.Move, 0, len(moves))
	for turn, together := range placement.Turns(moves) {
		for i := range together {
			move := &together[i]
			planned := p.moveOf(p.Member(move.Pod), p.MovePlace(move.To.Node, move.To.GPUs))
			planned.Turn = int32(turn)
			if reason != nil {
				planned.Reason = reason(move)
			}
			list = append(list, planned)
		}
	}
	return list
}

// moveOf returns the move of a Pod from where it is.
func (p *Planner) moveOf(m *clusterview.Member, to v1.MovePlace) v1.Move {
	return v1.Move{
		Task: refTo(m.Task.GPUTask), Pod: m.Pod.Name, PodUID: m.Pod.UID, GPUs: amount(snapshot.GPUPercent(&m.Shape)),
		From: p.Place(m.Pod), To: to,
		LostGPUSeconds: lost(m, p.Now), CostGPUSeconds: p.moveCost(m),
	}
}

func refTo(task *v1.GPUTask) v1.TaskReference {
	return v1.TaskReference{Namespace: task.Namespace, Name: task.Name, UID: task.UID}
}

// amount formats a number of GPUs, in percent of one, like spec.gpu-amount of a GPUTask.
func amount(percent int) string {
	switch {
	case percent == 0:
		return ""
	case percent < placement.Card:
		return fmt.Sprintf("0.%02d", percent)
	default:
		return fmt.Sprint(percent / placement.Card)
	}
}

// placesOf returns the places that a plan assigns to the Pods of a gang, and how many GPUs
// these have, rounded up.
func (p *Planner) placesOf(gang *snapshot.Members[*corev1.Pod], plan *placement.Plan) (places []v1.PodPlace, gpus int) {
	pods, where := gang.Assign(plan)
	percent := 0
	for i, pod := range pods {
		places = append(places, v1.PodPlace{Pod: pod.Name, MovePlace: p.MovePlace(where[i].Node, where[i].GPUs)})
		percent += snapshot.GPUPercent(&p.Member(string(pod.UID)).Shape)
	}
	return places, (percent + placement.Card - 1) / placement.Card
}
