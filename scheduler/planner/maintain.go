// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// requeuePeriod is how often gangs that are due for another attempt are requeued.
	requeuePeriod = 50 * time.Millisecond
	// maxRequeues is how many are requeued at a time, in the order of the queue.
	maxRequeues = 64
	// maintenancePeriod is how often incomplete gangs and kept nodes are checked.
	maintenancePeriod = time.Second
)

func (p *Planner) maintain(ctx context.Context) {
	defer p.admitTurnedAway() // also if no Pod with GPUs has had a cycle yet
	if !p.term.WasCurrent() {
		return
	}
	now := p.clock.Now()
	reservationsEnded := p.mirror.Sweep()
	if p.kept.sweep(now, p.keepTime(), p.registry.Waits) || reservationsEnded {
		p.wake()
	}
	p.tidier.tidy(now)
	p.evictor.EndNominations(ctx, p.kept.has)
	p.filters.Sweep(p.registry.Waits)
	for uid, plan := range p.registry.Overdue(now.Add(-p.PermitTimeout())) {
		p.Withdraw(uid, plan)
	}
	p.evictor.EvictPartial(ctx, func() []*corev1.Pod {
		return p.registry.Partial(now, p.mirror.Moving())
	})
}
