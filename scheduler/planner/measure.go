// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// measuredShapes is for how many of the most requested shapes the usable capacity is
// measured.
const measuredShapes = 8

// measureRegularly updates the gauges until ctx ends.
func (p *Planner) measureRegularly(ctx context.Context) {
	ticker := p.clock.NewTicker(measurePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if p.current.Load() {
				p.measure()
			}
		}
	}
}

// measure updates the gauges.
func (p *Planner) measure() {
	counts := p.registry.Count()
	for state, count := range map[string]int{
		"Gathering": counts.Gathering, "Waiting": counts.Waiting, "Planned": counts.Planned, "Running": counts.Running,
	} {
		p.metrics.gangStates.WithLabelValues(state).Set(float64(count))
	}
	starving, preempting := p.claims.count()
	p.metrics.claimed.WithLabelValues("Starving").Set(float64(starving))
	p.metrics.claimed.WithLabelValues("Preempting").Set(float64(preempting))
	p.metrics.reserved.Set(p.mirror.ReservedGPUs())

	view := p.mirror.View()
	measured := p.measureCapacity(p.live.sync(&view))
	p.metrics.freeGPUs.Reset()
	p.metrics.stranded.Reset()
	p.metrics.largest.Reset()
	for domain, free := range measured.free {
		p.metrics.freeGPUs.WithLabelValues(snapshot.PlainDomains(domain)).Set(float64(free))
	}
	for shape, capacity := range measured.shapes {
		p.metrics.stranded.WithLabelValues(shape).Set(float64(capacity.Stranded) / placement.Card)
		for level, largest := range capacity.Largest {
			p.metrics.largest.WithLabelValues(p.levelName(level), shape).Set(float64(largest.Pods))
		}
	}
}

// capacities are what the metrics about capacity show.
type capacities struct {
	// free is how many whole GPUs are free, by the narrowest domains.
	free map[string]int
	// shapes is how much free capacity a shape can't use, and the largest gang of it in one
	// domain of each level.
	shapes map[string]placement.Capacity
}

func (p *Planner) measureCapacity(cluster *placement.Cluster) capacities {
	measured := capacities{free: map[string]int{}, shapes: map[string]placement.Capacity{}}
	for _, shape := range p.mirror.Popular(measuredShapes) {
		if shape.Percent() > 0 {
			measured.shapes[shape.String()] = cluster.Capacity(shape, len(p.levels))
		}
	}
	whole := cluster.Request(placement.Shape{GPUs: 1})
	cluster.Root().Each(func(domain *placement.Domain) {
		if domain.Level > 0 && len(domain.Children) == 0 {
			measured.free[domain.Name] = domain.Room(whole)
		}
	})
	return measured
}

func (p *Planner) levelName(level int) string {
	if level == 0 {
		return "cluster"
	}
	return p.levels[level-1].Name
}
