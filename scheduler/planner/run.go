// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	// lookPeriod is how often it is looked who is to be tried again.
	lookPeriod = 50 * time.Millisecond
	// mostAtOnce is how many are tried again at a time: those who come first in
	// the queue come first here.
	mostAtOnce = 64
	// carePeriod is how often incomplete gangs and claims are looked at.
	carePeriod = time.Second
	// measurePeriod is how often the metrics about room are renewed.
	measurePeriod = 15 * time.Second
)

// run does what is due until ctx ends.
func (p *Planner) run(ctx context.Context) {
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.synced) {
		return
	}
	if !p.takeOver(ctx) {
		return
	}
	look, care, measure := p.clock.NewTicker(lookPeriod), p.clock.NewTicker(carePeriod), p.clock.NewTicker(measurePeriod)
	defer look.Stop()
	defer care.Stop()
	defer measure.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C():
			p.activate(p.registry.Due(p.clock.Now(), mostAtOnce))
		case <-care.C():
			p.care(ctx)
		case <-measure.C():
			if p.current.Load() {
				p.measure()
				p.metrics.reserved.Set(p.mirror.ReservedGPUs())
			}
		}
	}
}

func (p *Planner) care(ctx context.Context) {
	if !p.current.Load() {
		return
	}
	now := p.clock.Now()
	reservationsEnded := p.mirror.Sweep()
	if p.claims.sweep(now, time.Duration(p.args.ClaimSeconds)*time.Second, p.registry.Waits) || reservationsEnded {
		p.wake()
	}
	p.admitTurnedAway()
	if p.mayAct() && p.evicting.CompareAndSwap(false, true) {
		go func() {
			defer p.evicting.Store(false)
			p.evictPartial(ctx, p.registry.Partial(now, p.mirror.Moving()))
		}()
	}
}
