// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const (
	// Period is how often the gauges are updated.
	Period = 15 * time.Second
	// measuredShapes is for how many of the most requested shapes the usable capacity is
	// measured.
	measuredShapes = 8
)

// Mirror is what a Meter needs of the cluster that is planned for.
type Mirror interface {
	// Owns reports whether a node is the scheduler's.
	Owns(node *corev1.Node) bool
	// View returns a copy of the view by which nodes are translated for the engine.
	View() snapshot.NodeView
	// Popular returns the most requested shapes, at most limit.
	Popular(limit int) []placement.Shape
	// ReservedGPUs returns how many GPUs are reserved.
	ReservedGPUs() float64
}

// Sources are where the gauges have their numbers from.
type Sources struct {
	Mirror Mirror
	Levels snapshot.Levels
	// Gangs counts the gangs in each state, and KeptNodes the nodes that are kept for gangs.
	Gangs     func() gangs.Counts
	KeptNodes func() int
}

// Meter follows the cluster, and measures its capacity. Run, which calls Measure, is for one goroutine; the other
// methods may be called at any time.
type Meter struct {
	Sources
	clock  clock.WithTicker
	gauges *Gauges
	live   liveCluster
}

// NewMeter returns a Meter of an empty cluster.
func NewMeter(clock clock.WithTicker, sources Sources, gauges *Gauges) *Meter {
	return &Meter{Sources: sources, clock: clock, gauges: gauges}
}

// NodeChanged records a node as it is.
func (m *Meter) NodeChanged(node *corev1.Node) {
	if m.Mirror.Owns(node) {
		m.live.setNode(node.Name, node)
	} else {
		m.NodeGone(node.Name)
	}
}

// NodeGone records that there is no node of this name, or none of ours.
func (m *Meter) NodeGone(name string) { m.live.setNode(name, nil) }

// PodChanged records a Pod that has a node as it is.
func (m *Meter) PodChanged(pod *corev1.Pod) { m.live.setPod(pod) }

// PodGone records that a Pod has ended or is gone.
func (m *Meter) PodGone(pod *corev1.Pod) { m.live.removePod(pod) }

// Has reports whether a Pod is on its node, and has not ended.
func (m *Meter) Has(pod *corev1.Pod) bool { return m.live.has(pod) }

// DevicesChanged records which GPUs of a node resource claims hold, by their UUIDs.
func (m *Meter) DevicesChanged(node string, uuids []string) { m.live.setDevices(node, uuids) }

// Run updates the gauges from time to time while isCurrent, until ctx ends.
func (m *Meter) Run(ctx context.Context, isCurrent func() bool) {
	ticker := m.clock.NewTicker(Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if isCurrent() {
				m.Measure()
			}
		}
	}
}

// Measure updates the gauges. It is for the goroutine of Run.
func (m *Meter) Measure() {
	m.gauges.setGangs(m.Gangs())
	m.gauges.kept.WithLabelValues("Preempting").Set(float64(m.KeptNodes()))
	m.gauges.reserved.Set(m.Mirror.ReservedGPUs())
	m.gauges.setCapacities(m.measure(m.cluster()), m.Levels)
}

// cluster returns the cluster as it is now.
func (m *Meter) cluster() *placement.Cluster {
	view := m.Mirror.View()
	return m.live.sync(&view)
}

// capacities are what the metrics about capacity show.
type capacities struct {
	// free is how many whole GPUs are free, by the narrowest domains.
	free map[string]int
	// shapes is how much free capacity a shape can't use, and the largest gang of it in one
	// domain of each level.
	shapes map[string]placement.Capacity
}

func (m *Meter) measure(cluster *placement.Cluster) capacities {
	measured := capacities{free: map[string]int{}, shapes: map[string]placement.Capacity{}}
	for _, shape := range m.Mirror.Popular(measuredShapes) {
		if shape.Percent() > 0 {
			measured.shapes[shape.String()] = cluster.Capacity(shape, len(m.Levels))
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
