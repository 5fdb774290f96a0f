// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"encoding/binary"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// action stands for the action that the driver requires, which is no quantity.
const action gpu.Quantity = -1

// field is a value that is read by its ID, many in one call.
type field struct {
	id       uint32
	quantity gpu.Quantity
	unit     float64
}

func fields() []field {
	return []field{
		{nvml.FI_DEV_MEMORY_TEMP, gpu.MemoryTemperature, 1},
		{nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, gpu.Energy, milli},
		{nvml.FI_DEV_PCIE_REPLAY_COUNTER, gpu.PCIeReplays, 1},
		{nvml.FI_DEV_ECC_SBE_VOL_TOTAL, gpu.ECCCorrected, 1},
		{nvml.FI_DEV_ECC_DBE_VOL_TOTAL, gpu.ECCUncorrected, 1},
		{nvml.FI_DEV_REMAPPED_UNC, gpu.RemappedRows, 1},
		{nvml.FI_DEV_REMAPPED_PENDING, gpu.RowRemapPending, 1},
		{nvml.FI_DEV_REMAPPED_FAILURE, gpu.RowRemapFailure, 1},
		{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, action, 1},
	}
}

func fieldQuantities() (quantities []gpu.Quantity) {
	for _, field := range fields() {
		if field.quantity != action {
			quantities = append(quantities, field.quantity)
		}
	}
	return quantities
}

func (f *field) add(sample *gpu.Sample, value float64) {
	switch {
	case f.quantity == action:
		sample.Action = gpu.NumberedAction(int(value))
	case f.quantity == gpu.MemoryTemperature && value <= 0: // some GPUs without a memory sensor report 0 degrees
	default:
		sample.Values[f.quantity] = value * f.unit
	}
}

// readFields reads the fields that the GPU is not known to lack. It succeeds if any of them is
// read, and otherwise returns the status of one.
func readFields(d *device, sample *gpu.Sample) nvml.Return {
	state := &d.state
	if state.fields == nil {
		state.fields = fields()
	}
	if len(state.fields) == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	values := make([]nvml.FieldValue, len(state.fields))
	for i, field := range state.fields {
		values[i].FieldId = field.id
	}
	if ret := d.handle.GetFieldValues(values); ret != nvml.SUCCESS {
		return ret
	}
	kept := make([]field, 0, len(state.fields))
	result := nvml.ERROR_NOT_SUPPORTED
	for i, field := range state.fields {
		ret := nvml.Return(values[i].NvmlReturn) //nolint:gosec // the same enum of C, with a sign
		if !unsupported(ret) {
			kept = append(kept, field)
			result = worse(result, ret)
		}
		if ret == nvml.SUCCESS {
			field.add(sample, fieldValue(values[i]))
		}
	}
	state.fields = kept
	return result
}

// worse returns the more significant status: that the GPU is lost or needs a reset, then that
// something was read, then any other problem.
func worse(a, b nvml.Return) nvml.Return {
	rank := func(ret nvml.Return) int {
		switch {
		case fatal(ret):
			return 4
		case ret == nvml.ERROR_RESET_REQUIRED:
			return 3
		case ret == nvml.SUCCESS:
			return 2
		case !unsupported(ret):
			return 1
		default:
			return 0
		}
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// fieldValue decodes C's union of numbers.
func fieldValue(value nvml.FieldValue) float64 {
	order := binary.NativeEndian
	switch nvml.ValueType(value.ValueType) { //nolint:gosec // the same enum of C, with a sign
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(order.Uint64(value.Value[:]))
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(order.Uint32(value.Value[:]))
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(order.Uint32(value.Value[:]))) //nolint:gosec // the bits are those of an int
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(order.Uint64(value.Value[:]))) //nolint:gosec // the bits are those of a long long
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(order.Uint16(value.Value[:]))
	default: // unsigned long and unsigned long long
		return float64(order.Uint64(value.Value[:]))
	}
}
