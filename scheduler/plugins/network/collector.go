// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/prober"
)

// collector exports what is measured to the scheduler's /metrics.
type collector struct {
	metrics.BaseStableCollector
	measuring *measuring
	counts    map[prober.Result]*atomic.Int64

	probes, targets, values, age *metrics.Desc
}

func newCollector(measuring *measuring) *collector {
	c := &collector{
		measuring: measuring,
		counts:    map[prober.Result]*atomic.Int64{},
		probes: metrics.NewDesc("gpu_scheduler_network_probes_total",
			"Requests to node agents, by result: reached, failed, refused, busy, unreachable, invalid.", []string{"result"}, nil, metrics.ALPHA, ""),
		targets: metrics.NewDesc("gpu_scheduler_network_targets",
			"Targets that are measured because Pods want to reach them fast.", nil, nil, metrics.ALPHA, ""),
		values: metrics.NewDesc("gpu_scheduler_network_values",
			"Estimates that have not expired, one for each target and node.", nil, nil, metrics.ALPHA, ""),
		age: metrics.NewDesc("gpu_scheduler_network_oldest_value_age_seconds",
			"Time since the last measurement of the estimate that was renewed longest ago; 0 without estimates.", nil, nil, metrics.ALPHA, ""),
	}
	for _, result := range prober.Results() {
		c.counts[result] = &atomic.Int64{}
	}
	return c
}

// count counts a result.
func (c *collector) count(result prober.Result) {
	if counter := c.counts[result]; counter != nil {
		counter.Add(1)
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(to chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{c.probes, c.targets, c.values, c.age} {
		to <- desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(to chan<- metrics.Metric) {
	for _, result := range prober.Results() {
		to <- metrics.NewLazyConstMetric(c.probes, metrics.CounterValue, float64(c.counts[result].Load()), string(result))
	}
	count, oldest := c.measuring.estimator.Ages()
	to <- metrics.NewLazyConstMetric(c.targets, metrics.GaugeValue, float64(c.measuring.wanted.Count()))
	to <- metrics.NewLazyConstMetric(c.values, metrics.GaugeValue, float64(count))
	to <- metrics.NewLazyConstMetric(c.age, metrics.GaugeValue, oldest.Seconds())
}
