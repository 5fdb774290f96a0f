// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

const metricsNamespace = "gpu_controller"

// metrics count nodes after the last pass. They are 0 in a process that does not lead.
type metrics struct {
	tainted, heldBack prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		tainted: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: metricsNamespace, Name: "unhealthy_gpu_nodes_tainted",
			Help: "Nodes that have the taint falldio.com/gpu-unhealthy.",
		}),
		heldBack: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: metricsNamespace, Name: "unhealthy_gpu_nodes_held_back",
			Help: "Nodes with unhealthy GPUs that are not tainted as they should be, since --taint-unhealthy-gpus-max allows no more.",
		}),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	return errors.Join(registerer.Register(m.tainted), registerer.Register(m.heldBack))
}

func (m *metrics) set(tainted, heldBack int) {
	m.tainted.Set(float64(tainted))
	m.heldBack.Set(float64(heldBack))
}
