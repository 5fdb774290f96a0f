// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Gauges are what a Meter sets.
type Gauges struct {
	reserved                                      *metrics.Gauge
	gangStates, kept, stranded, largest, freeGPUs *metrics.GaugeVec
}

// NewGauges registers the gauges.
func NewGauges() (*Gauges, error) {
	g := &Gauges{
		reserved: metrics.NewGauge(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "reserved_gpus", StabilityLevel: metrics.ALPHA,
			Help: "GPUs reserved for Pods that are being moved, or that others are moved for.",
		}),
		gangStates: gauge("gangs", "Gangs by state, without Pods that are alone: Gathering, Waiting, Planned, Running.", "state"),
		kept:       gauge("claimed_nodes", "Nodes kept for a gang, by the reason why: Preempting, as Pods leave for it.", "why"),
		stranded:   gauge("stranded_gpus", "Free GPUs that Pods of a shape can't use, for the most requested shapes.", "shape"),
		largest:    gauge("largest_gang_pods", "Pods of a shape that one domain of a level has room for.", "level", "shape"),
		freeGPUs:   gauge("domain_free_gpus", "Whole GPUs that are free in each of the narrowest domains.", "domain"),
	}
	for _, one := range []metrics.Registerable{g.reserved, g.gangStates, g.kept, g.stranded, g.largest, g.freeGPUs} {
		if err := legacyregistry.Register(one); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return g, nil
}

const subsystem = "gpu_scheduler"

func gauge(name, help string, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
}

func (g *Gauges) setGangs(counts gangs.Counts) {
	for state, count := range map[string]int{
		"Gathering": counts.Gathering, "Waiting": counts.Waiting, "Planned": counts.Planned, "Running": counts.Running,
	} {
		g.gangStates.WithLabelValues(state).Set(float64(count))
	}
}

func (g *Gauges) setCapacities(measured capacities, levels snapshot.Levels) {
	g.freeGPUs.Reset()
	g.stranded.Reset()
	g.largest.Reset()
	for domain, free := range measured.free {
		g.freeGPUs.WithLabelValues(snapshot.PlainDomains(domain)).Set(float64(free))
	}
	for shape, capacity := range measured.shapes {
		g.stranded.WithLabelValues(shape).Set(float64(capacity.Stranded) / placement.Card)
		for level, largest := range capacity.Largest {
			g.largest.WithLabelValues(levelName(levels, level), shape).Set(float64(largest.Pods))
		}
	}
}

func levelName(levels snapshot.Levels, level int) string {
	if level == 0 {
		return "cluster"
	}
	return levels[level-1].Name
}
