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

// MovesOf returns the engine's moves as a MovePlan has them. reason says why each is
// moved; nil for no reasons.
func (p *Planner) MovesOf(moves []placement.Move, reason func(*placement.Move) string) []v1.Move {
	list := make([]v1.Move, 0, len(moves))
	for turn, together := range placement.Turns(moves) {
		for i := range together {
			move := &together[i]
			its := p.moveOf(p.Member(move.Pod), p.MovePlace(move.To.Node, move.To.GPUs))
			its.Turn = int32(turn)
			if reason != nil {
				its.Reason = reason(move)
			}
			list = append(list, its)
		}
	}
	return list
}

// moveOf is the move of a Pod from where it is.
func (p *Planner) moveOf(m *clusterview.Member, to v1.MovePlace) v1.Move {
	return v1.Move{
		Task: refTo(m.Task.GPUTask), Pod: m.Pod.Name, PodUID: m.Pod.UID, GPUs: amount(m.Shape.Percent()),
		From: p.Place(m.Pod), To: to,
		LostGPUSeconds: lost(m, p.Now), CostGPUSeconds: p.moveCost(m),
	}
}

func refTo(task *v1.GPUTask) v1.TaskReference {
	return v1.TaskReference{Namespace: task.Namespace, Name: task.Name, UID: task.UID}
}

// amount is a number of GPUs as spec.gpu-amount of a GPUTask has it.
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

// placesOf returns where the Pods of a gang go by a plan, and how many GPUs that are,
// rounded up.
func (p *Planner) placesOf(gang *snapshot.Members[*corev1.Pod], plan *placement.Plan) (places []v1.PodPlace, gpus int) {
	pods, where := gang.Assign(plan)
	percent := 0
	for i, pod := range pods {
		places = append(places, v1.PodPlace{Pod: pod.Name, MovePlace: p.MovePlace(where[i].Node, where[i].GPUs)})
		percent += p.Member(string(pod.UID)).Shape.Percent()
	}
	return places, (percent + placement.Card - 1) / placement.Card
}
