// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	percentPerRatio   = 100
	hertzPerMegahertz = 1e6
	bytesPerMebibyte  = 1 << 20
	millijoules       = 1000
)

// DCGM's names of metrics that MIG slices have as well.
const (
	dcgmMemoryUsed = "DCGM_FI_DEV_FB_USED"
	dcgmMemoryFree = "DCGM_FI_DEV_FB_FREE"
)

// series is the metric of a quantity.
type series struct {
	quantity gpu.Quantity
	kind     prometheus.ValueType
	name     string
	help     string
	// dcgm is its name in NVIDIA's dcgm-exporter, if any, and scale converts the value to
	// DCGM's unit.
	dcgm  string
	scale float64
}

// table has all quantities.
var table = []series{
	{gpu.Utilization, prometheus.GaugeValue, "falldio_gpu_utilization_ratio", "Share of the time in which a kernel ran.", "DCGM_FI_DEV_GPU_UTIL", percentPerRatio},
	{gpu.MemoryUtilization, prometheus.GaugeValue, "falldio_gpu_memory_utilization_ratio", "Share of the time in which memory was read or written.", "DCGM_FI_DEV_MEM_COPY_UTIL", percentPerRatio},
	{gpu.EncoderUtilization, prometheus.GaugeValue, "falldio_gpu_encoder_utilization_ratio", "Share of the time in which the video encoder worked.", "DCGM_FI_DEV_ENC_UTIL", percentPerRatio},
	{gpu.DecoderUtilization, prometheus.GaugeValue, "falldio_gpu_decoder_utilization_ratio", "Share of the time in which the video decoder worked.", "DCGM_FI_DEV_DEC_UTIL", percentPerRatio},
	{gpu.MemoryUsed, prometheus.GaugeValue, "falldio_gpu_memory_used_bytes", "Memory that programs use.", dcgmMemoryUsed, 1.0 / bytesPerMebibyte},
	{gpu.MemoryFree, prometheus.GaugeValue, "falldio_gpu_memory_free_bytes", "Memory that is free.", dcgmMemoryFree, 1.0 / bytesPerMebibyte},
	{gpu.MemoryReserved, prometheus.GaugeValue, "falldio_gpu_memory_reserved_bytes", "Memory that the driver keeps for itself.", "DCGM_FI_DEV_FB_RESERVED", 1.0 / bytesPerMebibyte},
	{gpu.Temperature, prometheus.GaugeValue, "falldio_gpu_temperature_celsius", "Temperature of the GPU.", "DCGM_FI_DEV_GPU_TEMP", 1},
	{gpu.MemoryTemperature, prometheus.GaugeValue, "falldio_gpu_memory_temperature_celsius", "Temperature of the memory.", "DCGM_FI_DEV_MEMORY_TEMP", 1},
	{gpu.FanSpeed, prometheus.GaugeValue, "falldio_gpu_fan_speed_ratio", "Speed of the fan, as a share of the highest.", "DCGM_FI_DEV_FAN_SPEED", percentPerRatio},
	{gpu.Power, prometheus.GaugeValue, "falldio_gpu_power_watts", "Power that the GPU draws.", "DCGM_FI_DEV_POWER_USAGE", 1},
	{gpu.PowerLimit, prometheus.GaugeValue, "falldio_gpu_power_limit_watts", "Power that the GPU may draw.", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1},
	{gpu.PowerManagementLimit, prometheus.GaugeValue, "falldio_gpu_power_management_limit_watts", "The administrator's limit of the GPU's power; other limits may be lower.", "DCGM_FI_DEV_POWER_MGMT_LIMIT", 1},
	{gpu.Energy, prometheus.CounterValue, "falldio_gpu_energy_joules_total", "Energy used since the driver was loaded.", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", millijoules},
	{gpu.SMClock, prometheus.GaugeValue, "falldio_gpu_sm_clock_hertz", "Clock of the multiprocessors.", "DCGM_FI_DEV_SM_CLOCK", 1 / hertzPerMegahertz},
	{gpu.MemoryClock, prometheus.GaugeValue, "falldio_gpu_memory_clock_hertz", "Clock of the memory.", "DCGM_FI_DEV_MEM_CLOCK", 1 / hertzPerMegahertz},
	{gpu.ThrottleReasons, prometheus.GaugeValue, "falldio_gpu_throttle_reasons", "Bit mask of what slows the clocks down: nvmlClocksEventReasons in nvml.h.", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1},
	{gpu.PCIeReceived, prometheus.GaugeValue, "falldio_gpu_pcie_received_bytes_per_second", "Data received over PCIe.", "", 1},
	{gpu.PCIeTransmitted, prometheus.GaugeValue, "falldio_gpu_pcie_transmitted_bytes_per_second", "Data sent over PCIe.", "", 1},
	{gpu.PCIeReplays, prometheus.CounterValue, "falldio_gpu_pcie_replays_total", "Retries on the PCI bus.", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1},
	{gpu.ECCCorrected, prometheus.CounterValue, "falldio_gpu_ecc_corrected_errors_total", "Memory errors corrected since the last reset of the GPU.", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 1},
	{gpu.ECCUncorrected, prometheus.CounterValue, "falldio_gpu_ecc_uncorrected_errors_total", "Memory errors not corrected since the last reset of the GPU.", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1},
	{gpu.RemappedRows, prometheus.CounterValue, "falldio_gpu_remapped_rows_total", "Memory rows replaced after uncorrectable errors.", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1},
	{gpu.RowRemapPending, prometheus.GaugeValue, "falldio_gpu_row_remap_pending", "1 if memory rows will be replaced at the next reset of the GPU.", "DCGM_FI_DEV_ROW_REMAP_PENDING", 1},
	{gpu.RowRemapFailure, prometheus.GaugeValue, "falldio_gpu_row_remap_failure", "1 if replacing a memory row has failed.", "DCGM_FI_DEV_ROW_REMAP_FAILURE", 1},
	{gpu.NVLinks, prometheus.GaugeValue, "falldio_gpu_nvlinks", "Active NVLink connections.", "", 1},
	{gpu.FabricReady, prometheus.GaugeValue, "falldio_gpu_fabric_ready", "1 if the GPU has joined the fabric of NVSwitches.", "", 1},
	{gpu.MIGMode, prometheus.GaugeValue, "falldio_gpu_mig_enabled", "1 if the GPU is in MIG mode.", "DCGM_FI_DEV_MIG_MODE", 1},
	{gpu.Processes, prometheus.GaugeValue, "falldio_gpu_processes", "Processes that compute on the GPU.", "", 1},
}
