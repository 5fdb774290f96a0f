// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// reclaimFor returns who may be preempted for a gang because of its queue; nil without GPUQueues, where
// priority alone decides.
func (p *Planner) reclaimFor(attempt *gangs.Attempt, gang *roles) *preemption.Queues {
	state := p.queueState()
	if state == nil {
		return nil
	}
	queue := state.QueueOf(attempt.Waiting[0].Pod()).Queue
	var held []preemption.Held
	p.mirror.With(func(*placement.Cluster) {
		for _, holding := range p.mirror.HoldingPods() {
			held = append(held, preemption.Held{
				Pod: holding.Pod, Gang: p.registry.GangOf(types.UID(holding.Name)), Model: holding.Model,
				Queue: state.QueueOfRunning(holding.Pod.Namespace, holding.Pod.Labels[v1.LabelQueue]), Amount: queueing.Amount(holding.Percent),
				Leaving: holding.Pod.DeletionTimestamp != nil || p.registry.Terminating(types.UID(holding.Name)),
			})
		}
	})
	return preemption.NewQueues(p.claimedLedger(state, attempt.Group.Key), queue, gpuqueue.Least(&gang.Gang), attempt.Priority, held, p.clock.Now())
}
