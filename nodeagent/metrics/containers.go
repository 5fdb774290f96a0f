// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Containers is the source of the metrics about what containers use of GPUs.
type Containers interface {
	// Of returns what each container that holds a GPU uses of it, and what all other
	// processes use; nothing if that is not known.
	Of(uuid string) []ContainerUse
}

// ContainerUse is what a container uses of a GPU.
type ContainerUse struct {
	// Namespace, Pod and Container are as in Holder; Container is Others, and the others are
	// empty, for all processes that belong to no holder.
	Namespace, Pod, Container string
	Processes                 int
	// Values are the quantities that were measured.
	Values gpu.Values
}

// Others is the container label of what belongs to no container that holds the GPU.
const Others = "other"

// containerSeries is the metric of a quantity by container.
type containerSeries struct {
	quantity   gpu.Quantity
	name, help string
}

// containerTable has all of them.
var containerTable = []containerSeries{
	{gpu.MemoryUsed, "falldio_gpu_container_memory_used_bytes", "Memory of the GPU that the container's processes use."},
	{gpu.Utilization, "falldio_gpu_container_sm_utilization_ratio", "Share of the time in which the container's kernels ran on the multiprocessors."},
	{gpu.MemoryUtilization, "falldio_gpu_container_memory_utilization_ratio", "Share of the time in which the container read or wrote memory of the GPU."},
	{gpu.EncoderUtilization, "falldio_gpu_container_encoder_utilization_ratio", "Share of the time in which the video encoder worked for the container."},
	{gpu.DecoderUtilization, "falldio_gpu_container_decoder_utilization_ratio", "Share of the time in which the video decoder worked for the container."},
}

// containers adds the metrics of the containers on one GPU.
func (s *sink) containers(node *Node, device *gpu.Device) {
	if node.Containers == nil {
		return
	}
	for _, use := range node.Containers.Of(device.UUID) {
		of := containerLabels(node, device, use.Namespace, use.Pod, use.Container)
		s.gauge("falldio_gpu_container_processes", "Processes of the container that use the GPU.",
			float64(use.Processes), of)
		for _, row := range containerTable {
			if value, measured := use.Values[row.quantity]; measured {
				s.gauge(row.name, row.help, value, of)
			}
		}
	}
}

// containerLabels are those of a container on a GPU.
func containerLabels(node *Node, device *gpu.Device, namespace, pod, container string) labels {
	return labels{
		[]string{"gpu", "UUID", "hostname", "namespace", "pod", "container"},
		[]string{strconv.Itoa(device.Index), device.UUID, node.Name, namespace, pod, container},
	}
}
