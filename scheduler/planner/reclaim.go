// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// reclaimPeriod is for how long it is remembered that nobody may be preempted although queues have borrowed: their Pods may
// become old enough meanwhile.
const reclaimPeriod = 2 * time.Second

// prospectOf returns what queues may have to give back for a gang; nil without GPUQueues, where priority alone decides.
func (p *Planner) prospectOf(attempt *gangs.Attempt, request *gangs.Request) *preemption.Prospect {
	state := p.line.State()
	if state == nil {
		return nil
	}
	queue := state.QueueOf(attempt.Waiting[0].Pod()).Queue
	return preemption.NewProspect(p.line.Ledger(state, attempt.Group.Key), queue, gpuqueue.Least(&request.Gang))
}

// prospectKey is equal for gangs that may preempt the same Pods, as far as queues decide.
func (p *Planner) prospectKey(prospect *preemption.Prospect) string {
	if prospect.Reclaims() {
		return prospect.Key() + p.clock.Now().Truncate(reclaimPeriod).String()
	}
	return prospect.Key()
}

// reclaimFor returns who may be preempted for a gang because of its queue; nil without GPUQueues. It looks at all Pods with
// GPUs.
func (p *Planner) reclaimFor(attempt *gangs.Attempt, prospect *preemption.Prospect) *preemption.Queues {
	state := p.line.State()
	if state == nil || prospect == nil {
		return nil
	}
	assigned := queues.RunningPods{State: state}
	var holdings []mirror.Holding
	p.mirror.With(func(*placement.Cluster) { holdings = p.mirror.HoldingPods() })
	held := make([]preemption.Held, 0, len(holdings))
	for i := range holdings {
		holding := &holdings[i]
		held = append(held, preemption.Held{
			Pod: holding.Pod, Gang: p.registry.GangOf(types.UID(holding.Name)), Model: holding.Model, Queue: assigned.QueueOf(holding.Pod), Amount: queueing.Amount(holding.Percent),
			Leaving: holding.Pod.DeletionTimestamp != nil || p.registry.Terminating(types.UID(holding.Name)),
		})
	}
	return prospect.Queues(attempt.Priority, preemption.WithCompanions(held, p.registry.Staying), p.clock.Now())
}
