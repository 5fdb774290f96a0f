// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/prometheus/client_golang/prometheus"

// collector exports the driver's own metrics. Those of the GPUs are the node agent's.
type collector struct {
	node                        *node
	published, claims, failures *prometheus.Desc
}

var _ prometheus.Collector = &collector{}

func newCollector(n *node) *collector {
	return &collector{
		node:      n,
		published: prometheus.NewDesc("dradriver_devices", "Devices in the node's ResourceSlices.", nil, nil),
		claims:    prometheus.NewDesc("dradriver_prepared_claims", "ResourceClaims that are prepared for the containers of Pods.", nil, nil),
		failures:  prometheus.NewDesc("dradriver_prepare_failures_total", "Attempts to prepare a ResourceClaim that failed. The kubelet repeats them.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.published
	out <- c.claims
	out <- c.failures
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if count := c.node.published.Load(); count != nil {
		out <- prometheus.MustNewConstMetric(c.published, prometheus.GaugeValue, float64(*count))
	}
	out <- prometheus.MustNewConstMetric(c.claims, prometheus.GaugeValue, float64(len(c.node.driver.store.All())))
	out <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(c.node.driver.failures.Load()))
}
