// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "falldio.github.io/gpu-controller/nodeagent/hardware/gpu"

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

// shares adds the metrics of the shares of one GPU.
func (s *sink) shares(node *Node, device *gpu.Device) {
	if node.Shares == nil {
		return
	}
	for _, share := range node.Shares.Of(device.UUID) {
		s.gauge("falldio_gpu_share_enforcement",
			"Always 1; enforcement tells what limits the container to its share of the GPU: none, mps, dmem, mps+dmem or unknown.",
			1, containerLabels(node, device, share.Namespace, share.Pod, share.Container).with("enforcement", share.Enforcement))
	}
}
