// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// fact is a property of a GPU that does not change while the driver runs.
type fact struct {
	call string
	// read sets it if it returns SUCCESS.
	read func(*device) nvml.Return
}

func facts() []fact {
	return []fact{
		known("nvmlDeviceGetName", nvml.Device.GetName, func(d *device, name string) { d.info.Product = name }),
		known("nvmlDeviceGetMemoryInfo", nvml.Device.GetMemoryInfo, func(d *device, memory nvml.Memory) {
			d.info.MemoryBytes = memory.Total
		}),
		known("nvmlDeviceGetPciInfo", nvml.Device.GetPciInfo, func(d *device, pci nvml.PciInfo) {
			d.address, d.info.PCIBusID = addressOf(pci), busID(pci)
		}),
		known("nvmlDeviceGetMinorNumber", nvml.Device.GetMinorNumber, func(d *device, minor int) { d.info.Minor = minor }),
		{"nvmlDeviceGetCudaComputeCapability", func(d *device) nvml.Return {
			major, minor, ret := d.handle.GetCudaComputeCapability()
			if ret == nvml.SUCCESS {
				d.info.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
			}
			return ret
		}},
	}
}

// known returns a fact that one call returns.
func known[T any](call string, get func(nvml.Device) (T, nvml.Return), set func(*device, T)) fact {
	return fact{call, func(d *device) nvml.Return {
		value, ret := get(d.handle)
		if ret == nvml.SUCCESS {
			set(d, value)
		}
		return ret
	}}
}

// readMissing retries the facts that the driver failed to return. If it returns one now, the
// Source must be opened again: an inventory does not change.
func (d *device) readMissing() error {
	before := d.info
	d.missing = slices.DeleteFunc(d.missing, func(fact fact) bool {
		ret := fact.read(d)
		return ret == nvml.SUCCESS || unsupported(ret)
	})
	if !d.info.Same(before) {
		return fmt.Errorf("%w: the driver reports more about GPU %s", gpu.ErrStale, d.info.UUID)
	}
	return nil
}
