// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const secondsPerHour = 3600

// pack returns a plan that gives back whole GPUs, nodes and domains.
func (p *Planner) pack(report *Report) *v1.MovePlan {
	if report.Why = p.backoffReason(v1.GoalCapacity, nil); report.Why != "" {
		return nil
	}
	excluded := map[*clusterview.Unit]bool{}
	for range maxReplans {
		packing, err := p.Cluster.Pack(placement.PackingOptions{
			MoveRules: p.rules(AnyPriority, excluded), Threshold: p.Options.Threshold, MinGain: p.Options.MinGain / secondsPerHour,
		})
		if err != nil {
			report.Why = err.Error()
			return nil
		}
		if len(packing.Moves) == 0 {
			break
		}
		costliest := p.costliestOverBudget(packing.Moves, "")
		if costliest == nil {
			plan := p.capacityPlan(packing)
			if report.Why = p.yieldReason(plan); report.Why != "" {
				return nil
			}
			return plan
		}
		excluded[costliest] = true
	}
	report.Why = "no moves are worth their cost"
	return nil
}

func (p *Planner) capacityPlan(packing *placement.Packing) *v1.MovePlan {
	gain := v1.MoveGain{GPUs: int32(packing.GPUs), Nodes: packing.Nodes} //nolint:gosec // far fewer
	for _, domain := range packing.Domains {
		gain.Domains = append(gain.Domains, snapshot.PlainDomains(domain))
	}
	moves := p.MovesOf(packing.Moves, func(move *placement.Move) string {
		return fmt.Sprintf("leaves node %s, where it blocks larger tasks", move.From.Node)
	})
	return p.finish(&v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pack-"},
		Spec: v1.MovePlanSpec{
			Goal: v1.GoalCapacity, Moves: moves, Gain: gain,
			Reason: fmt.Sprintf("%s: %s", gainText(&gain), costText(moves)),
		},
	})
}

// gainText describes what is given back.
func gainText(gain *v1.MoveGain) string {
	var parts []string
	if gain.GPUs > 0 {
		parts = append(parts, plural.Count(gain.GPUs, "GPU"))
	}
	if count := len(gain.Nodes); count > 0 {
		parts = append(parts, plural.Count(count, "node"))
	}
	if count := len(gain.Domains); count > 0 {
		parts = append(parts, plural.Count(count, "domain"))
	}
	if len(parts) == 0 {
		return "larger blocks of free GPUs"
	}
	return strings.Join(parts, ", ") + " given back"
}
