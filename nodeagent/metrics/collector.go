// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics exports Prometheus metrics of the GPUs and of the agent itself. A scrape
// reads cached state and calls neither driver nor kubelet.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

// Node is the source of one node's metrics.
type Node struct {
	Name string
	// GPUs is the monitor.
	GPUs interface {
		Snapshot() *gpu.Snapshot
		Statistics() monitor.Statistics
	}
	// Writes returns the numbers of successful and failed writes of the Node's labels.
	Writes func() (worked, failed uint64)
	// Holders may be nil.
	Holders *Holders
	// Shares may be nil.
	Shares Shares
	// Containers may be nil.
	Containers Containers
	// Plugins returns the states of the node's device plugins by their resources; it may be nil.
	Plugins func() map[string]deviceplugin.Status
}

func (n *Node) holders(uuid string) []Holder {
	if n.Holders == nil {
		return nil
	}
	return n.Holders.Of(uuid)
}

// Collector collects the metrics of one or more nodes.
type Collector struct {
	nodes []*Node
	clock clock.PassiveClock
	dcgm  bool
	// described are the descriptors: see sink.
	described sync.Map
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector; dcgm adds metrics with the names of NVIDIA's
// dcgm-exporter.
func NewCollector(c clock.PassiveClock, dcgm bool, nodes ...*Node) *Collector {
	return &Collector{nodes: nodes, clock: c, dcgm: dcgm}
}

// Describe implements prometheus.Collector. It describes nothing, which makes the collector
// unchecked: the metrics depend on the GPU.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(into chan<- prometheus.Metric) {
	s := &sink{into: into, described: &c.described}
	for _, node := range c.nodes {
		snapshot := node.GPUs.Snapshot()
		for i := range snapshot.Devices {
			s.device(node, &snapshot.Devices[i], snapshot.Driver, c.dcgm)
		}
		s.agent(node, snapshot, c.clock.Now())
	}
}
