// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// measuredShapes is for how many of the most requested shapes the usable capacity is
// measured.
const measuredShapes = 8

// measure updates the metrics about capacity. It looks at the informers' caches, not at
// the mirror, which is as old as the last scheduling cycle.
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

	cluster := p.liveCluster()
	p.metrics.freeGPUs.Reset()
	p.metrics.stranded.Reset()
	p.metrics.largest.Reset()
	for _, shape := range p.mirror.Popular(measuredShapes) {
		if shape.Percent() > 0 {
			p.measureShape(cluster, shape)
		}
	}
	whole := cluster.Request(placement.Shape{GPUs: 1})
	cluster.Root().Each(func(domain *placement.Domain) {
		if domain.Level > 0 && len(domain.Children) == 0 {
			p.metrics.freeGPUs.WithLabelValues(snapshot.PlainDomains(domain.Name)).Set(float64(domain.Room(whole)))
		}
	})
}

// liveCluster returns the cluster as the informers know it.
func (p *Planner) liveCluster() *placement.Cluster {
	core := p.handle.SharedInformerFactory().Core().V1()
	nodes, _ := core.Nodes().Lister().List(labels.Everything()) // reading a cache never fails
	pods, _ := core.Pods().Lister().List(labels.Everything())
	ours := make([]*corev1.Node, 0, len(nodes))
	for _, node := range nodes {
		if p.Owns(node) {
			ours = append(ours, node)
		}
	}
	view := p.mirror.View()
	return view.Cluster(packing.New(packing.Default()), ours, pods).Cluster // the mirror has logged any errors
}

// measureShape records how much free capacity a shape can't use, and the largest gang of
// it in one domain of each level.
func (p *Planner) measureShape(cluster *placement.Cluster, shape placement.Shape) {
	capacity := cluster.Capacity(shape, len(p.levels))
	name := shape.String()
	p.metrics.stranded.WithLabelValues(name).Set(float64(capacity.Stranded) / placement.Card)
	for level, largest := range capacity.Largest {
		p.metrics.largest.WithLabelValues(p.levelName(level), name).Set(float64(largest.Pods))
	}
}

func (p *Planner) levelName(level int) string {
	if level == 0 {
		return "cluster"
	}
	return p.levels[level-1].Name
}
