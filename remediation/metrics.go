// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const metricsNamespace = "gpu_controller"

// metrics count nodes after the last pass. They are 0 in a process that does not lead.
type metrics struct {
	tainted, heldBack prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	register := promauto.With(registerer)
	return &metrics{
		tainted: register.NewGauge(prometheus.GaugeOpts{
			Namespace: metricsNamespace, Name: "unhealthy_gpu_nodes_tainted",
			Help: "Nodes that have the taint falldio.com/gpu-unhealthy.",
		}),
		heldBack: register.NewGauge(prometheus.GaugeOpts{
			Namespace: metricsNamespace, Name: "unhealthy_gpu_nodes_held_back",
			Help: "Nodes with unhealthy GPUs that are not tainted as they should be, since --taint-unhealthy-gpus-max allows no more.",
		}),
	}
}

func (m *metrics) set(tainted, heldBack int) {
	m.tainted.Set(float64(tainted))
	m.heldBack.Set(float64(heldBack))
}
