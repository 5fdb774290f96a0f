// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

// Quantity is something that a GPU measures or counts. Units are base units.
type Quantity int

// The quantities. Gauges unless said otherwise.
const (
	// Utilization is the share of time in which a kernel ran, 0 to 1.
	Utilization Quantity = iota
	// MemoryUtilization is the share of time in which memory was read or
	// written, 0 to 1.
	MemoryUtilization
	// EncoderUtilization and DecoderUtilization are those of the video engines,
	// 0 to 1.
	EncoderUtilization
	DecoderUtilization
	// MemoryUsed, MemoryFree and MemoryReserved (by the driver) are in bytes.
	// They add up to Info.MemoryBytes.
	MemoryUsed
	MemoryFree
	MemoryReserved
	// Temperature and MemoryTemperature are in degrees Celsius.
	Temperature
	MemoryTemperature
	// FanSpeed is a share of the highest speed, 0 to 1.
	FanSpeed
	// Power is in watts.
	Power
	// PowerLimit is what the GPU may draw at present, in watts: the lowest of all limits.
	// PowerManagementLimit is the one of them that administrators set (nvidia-smi
	// --power-limit).
	PowerLimit
	PowerManagementLimit
	// Energy is in joules since the driver was loaded; a counter.
	Energy
	// SMClock and MemoryClock are in hertz.
	SMClock
	MemoryClock
	// ThrottleReasons is NVML's bit mask of what slows the clocks down.
	ThrottleReasons
	// PCIeReceived and PCIeTransmitted are in bytes per second. Measuring takes
	// 20 ms each, so they are measured on request only.
	PCIeReceived
	PCIeTransmitted
	// PCIeReplays counts retries on the PCI bus; a counter.
	PCIeReplays
	// ECCCorrected and ECCUncorrected count memory errors since the last reset
	// of the GPU; counters.
	ECCCorrected
	ECCUncorrected
	// RemappedRows counts memory rows replaced after uncorrectable errors over the GPU's
	// lifetime; a counter.
	RemappedRows
	// RowRemapPending is 1 if memory rows will be replaced at the next reset of the GPU, and
	// RowRemapFailure if replacing one has failed: there is no spare row left.
	RowRemapPending
	RowRemapFailure
	// NVLinks is the number of active NVLink connections.
	NVLinks
	// FabricReady is 1 if the GPU has joined the fabric of NVSwitches, 0 if not (yet).
	FabricReady
	// MIGMode is 1 in MIG mode.
	MIGMode
	// Processes is the number of processes that compute on the GPU.
	Processes
)

// Values are measurements. Those that a GPU does not support are missing.
type Values map[Quantity]float64

// Sample is the result of one poll of one GPU.
type Sample struct {
	UUID   string
	Values Values
	Action Action
	Fabric Fabric
	// Slices are the measurements of the GPU's slices, by UUID. The driver measures their memory
	// only.
	Slices map[string]Values
}

// Fabric is the state of a GPU in the fabric of NVSwitches. Without it, CUDA does not start
// on GPUs that have one (error 802, cudaErrorSystemNotReady).
type Fabric int

// The states.
const (
	// FabricUnknown: the GPU has no fabric, or the driver does not report it.
	FabricUnknown Fabric = iota
	// FabricNotReady: the GPU has not joined it yet. Fabric Manager may not be running.
	FabricNotReady
	// FabricJoined: the GPU has joined it.
	FabricJoined
	// FabricFailed: joining it has failed.
	FabricFailed
)

// Event is an error that the driver reports between polls.
type Event struct {
	// UUID of the GPU; empty if the event concerns all GPUs.
	UUID string
	// XID is NVIDIA's number of the error:
	// https://docs.nvidia.com/deploy/xid-errors/
	XID uint64
}
