// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Shares is the source of the metrics about what limits shares of GPUs.
type Shares interface {
	// Of returns the containers that hold shares of a GPU.
	Of(uuid string) []Share
	// DaemonUp reports whether the MPS control daemon runs; configured is false if there is
	// none to be.
	DaemonUp() (up, configured bool)
}

// Share is a container that holds a share of a GPU.
type Share struct {
	Namespace, Pod, Container string
	// Enforcement is what limits the container at present, one of inventory's values.
	Enforcement string
}

func describeEnforcement() *prometheus.Desc {
	return describe("falldio_gpu_share_enforcement",
		"Always 1; enforcement tells what limits the container to its share of the GPU: none, mps, dmem, mps+dmem or unknown.",
		[]string{"gpu", "UUID", "hostname", "namespace", "pod", "container", "enforcement"})
}

// shares collects the metrics of the shares of one GPU.
func (d *descriptions) shares(into chan<- prometheus.Metric, node *Node, device *gpu.Device) {
	if node.Shares == nil {
		return
	}
	for _, share := range node.Shares.Of(device.UUID) {
		into <- constant(d.enforcement, prometheus.GaugeValue, 1, strconv.Itoa(device.Index), device.UUID, node.Name,
			share.Namespace, share.Pod, share.Container, share.Enforcement)
	}
}
