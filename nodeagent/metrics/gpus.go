// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// dcgmXID is DCGM's name for the last XID, which is not in the table, and asDCGM ends what is said of DCGM's metrics.
const (
	dcgmXID = "DCGM_FI_DEV_XID_ERRORS"
	asDCGM  = " (as DCGM has it)"
)

// device adds the metrics of one GPU.
func (s *sink) device(node *Node, device *gpu.Device, driver gpu.Driver, dcgm bool) {
	holders := node.holders(device.UUID)
	of := gpuLabels(node.Name, device, holders)
	for _, row := range table {
		value, measured := device.Values[row.quantity]
		if !measured {
			continue
		}
		s.add(row.kind, row.name, row.help, value, of)
		if dcgm && row.dcgm != "" && !ofSlices(row.quantity, device) {
			s.add(row.kind, row.dcgm, row.help+asDCGM, value*row.scale, of)
		}
	}
	if dcgm {
		s.gauge(dcgmXID, "The last XID error.", float64(device.LastXID), of)
	}
	s.gauge("falldio_gpu_memory_bytes", "All memory of the GPU.", float64(device.MemoryBytes), of)
	reason := ""
	if !device.Healthy() {
		reason = device.Fault.Reason
	}
	s.truth("falldio_gpu_healthy", "1 if the GPU can be used, 0 if not; reason says why not.",
		device.Healthy(), of.with("reason", reason))
	if action := device.RequiredAction(); action != gpu.ActionUnknown {
		s.gauge("falldio_gpu_recovery_action", "Always 1; action is what the driver requires at present, None if nothing.",
			1, of.with("action", action.String()))
	}
	s.gauge("falldio_gpu_info", "Always 1; the labels tell what the GPU is.", 1, of.
		with("driver_version", driver.Version).with("cuda_version", driver.CUDA).with("compute_capability", device.ComputeCapability).
		with("numa_node", number(device.NUMANode)).with("nvlink_group", number(device.NVLinkGroup)))
	for xid, count := range device.XIDs {
		s.counter("falldio_gpu_xid_errors_total", "XID errors since the agent started, by their number.",
			float64(count), of.with("xid", strconv.FormatUint(xid, 10)))
	}
	for _, holder := range holders {
		by := containerLabels(node, device, holder.Namespace, holder.Pod, holder.Container).with("resource", holder.Resource)
		s.gauge("falldio_gpu_holder", "Always 1; the labels tell which container holds the GPU, or a share of it.", 1, by)
		s.gauge("falldio_gpu_holder_share_ratio", "How much of the GPU the container was given: 1 for a whole GPU.",
			float64(holder.Percent)/percentPerRatio, by)
	}
	s.shares(node, device)
	s.slices(node, device, dcgm)
	s.containers(node, device)
}

// gpuLabels are named like the labels of dcgm-exporter, so that queries and relabelling rules work
// with both. A GPU that several containers share names none of them: its values belong to no single one.
func gpuLabels(node string, device *gpu.Device, holders []Holder) labels {
	var holder Holder
	if len(holders) == 1 {
		holder = holders[0]
	}
	return labels{
		[]string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "hostname", "namespace", "pod", "container"},
		[]string{
			strconv.Itoa(device.Index), device.UUID, device.PCIBusID, "nvidia" + strconv.Itoa(device.Minor), device.Product, node,
			holder.Namespace, holder.Pod, holder.Container,
		},
	}
}

func number(value int) string {
	if value == gpu.Unknown {
		return ""
	}
	return strconv.Itoa(value)
}
