// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// gpuLabels are named like the labels of dcgm-exporter, so that queries and relabelling rules
// work with both.
var gpuLabels = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "hostname", "namespace", "pod", "container"}

// dcgmXID is DCGM's name for the last XID, which is not in the table.
const dcgmXID = "DCGM_FI_DEV_XID_ERRORS"

// descriptions are the descriptors of all metrics of GPUs.
type descriptions struct {
	own, dcgm             []*prometheus.Desc // as in table; dcgm has nil where DCGM has no name
	healthy, memory, info *prometheus.Desc
	action                *prometheus.Desc
	xids, dcgmXID         *prometheus.Desc
	holder, holderShare   *prometheus.Desc
	enforcement           *prometheus.Desc
	slices                *sliceDescriptions
	containers            *containerDescriptions
}

// holderLabels are the labels of a container that holds a GPU.
var holderLabels = []string{"gpu", "UUID", "hostname", "resource", "namespace", "pod", "container"}

func newDescriptions() *descriptions {
	d := &descriptions{
		healthy: describe("falldio_gpu_healthy", "1 if the GPU can be used, 0 if not; reason says why not.", append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "reason")),
		action: describe("falldio_gpu_recovery_action", "Always 1; action is what the driver requires at present, None if nothing.",
			append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "action")),
		memory: describe("falldio_gpu_memory_bytes", "All memory of the GPU.", gpuLabels),
		info: describe("falldio_gpu_info", "Always 1; the labels tell what the GPU is.",
			append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "driver_version", "cuda_version", "compute_capability", "numa_node", "nvlink_group")),
		xids: describe("falldio_gpu_xid_errors_total", "XID errors since the agent started, by their number.",
			append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "xid")),
		dcgmXID:     describe(dcgmXID, "The last XID error.", gpuLabels),
		holder:      describe("falldio_gpu_holder", "Always 1; the labels tell which container holds the GPU, or a share of it.", holderLabels),
		holderShare: describe("falldio_gpu_holder_share_ratio", "How much of the GPU the container was given: 1 for a whole GPU.", holderLabels),
	}
	d.enforcement, d.containers = describeEnforcement(), describeContainers()
	d.slices = newSliceDescriptions()
	for _, row := range table {
		d.own = append(d.own, describe(row.name, row.help, gpuLabels))
		d.dcgm = append(d.dcgm, describe(row.dcgm, row.help+" (as DCGM has it)", gpuLabels))
	}
	return d
}

func describe(name, help string, labels []string) *prometheus.Desc {
	if name == "" {
		return nil
	}
	return prometheus.NewDesc(name, help, labels, nil)
}

// constant returns a constant metric. An invalid one, for example because the driver returned
// a name that is not valid UTF-8, becomes an error of the scrape.
func constant(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) prometheus.Metric {
	metric, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return metric
}

// device collects the metrics of one GPU.
func (d *descriptions) device(into chan<- prometheus.Metric, node *Node, device *gpu.Device, driver gpu.Driver, dcgm bool) {
	holders := node.holders(device.UUID)
	values := labelValues(node.Name, device, holders)
	gauge := func(desc *prometheus.Desc, value float64, more ...string) {
		into <- constant(desc, prometheus.GaugeValue, value, append(values[:len(values):len(values)], more...)...)
	}
	for i, row := range table {
		value, measured := device.Values[row.quantity]
		if !measured {
			continue
		}
		into <- constant(d.own[i], row.kind, value, values...)
		if dcgm && d.dcgm[i] != nil && !ofSlices(row.quantity, device) {
			into <- constant(d.dcgm[i], row.kind, value*row.scale, values...)
		}
	}
	if dcgm {
		gauge(d.dcgmXID, float64(device.LastXID))
	}
	gauge(d.memory, float64(device.MemoryBytes))
	healthy, reason := 1.0, ""
	if !device.Healthy() {
		healthy, reason = 0, device.Fault.Reason
	}
	gauge(d.healthy, healthy, reason)
	if action := device.RequiredAction(); action != gpu.ActionUnknown {
		gauge(d.action, 1, action.String())
	}
	gauge(d.info, 1, driver.Version, driver.CUDA, device.ComputeCapability, number(device.NUMANode), number(device.NVLinkGroup))
	for xid, count := range device.XIDs {
		into <- constant(d.xids, prometheus.CounterValue, float64(count),
			append(values[:len(values):len(values)], strconv.FormatUint(xid, 10))...)
	}
	for _, holder := range holders {
		labels := []string{strconv.Itoa(device.Index), device.UUID, node.Name, holder.Resource, holder.Namespace, holder.Pod, holder.Container}
		into <- constant(d.holder, prometheus.GaugeValue, 1, labels...)
		into <- constant(d.holderShare, prometheus.GaugeValue, float64(holder.Percent)/percentPerRatio, labels...)
	}
	d.shares(into, node, device)
	d.slices.collect(into, node, device, dcgm)
	d.containers.collect(into, node, device)
}

// labelValues returns values in the order of gpuLabels. A GPU that several containers share
// names none of them: its values belong to no single one.
func labelValues(node string, device *gpu.Device, holders []Holder) []string {
	var holder Holder
	if len(holders) == 1 {
		holder = holders[0]
	}
	return []string{
		strconv.Itoa(device.Index), device.UUID, device.PCIBusID, "nvidia" + strconv.Itoa(device.Minor), device.Product, node,
		holder.Namespace, holder.Pod, holder.Container,
	}
}

func number(value int) string {
	if value == gpu.Unknown {
		return ""
	}
	return strconv.Itoa(value)
}
