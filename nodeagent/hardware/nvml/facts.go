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
		{"nvmlDeviceGetName", func(d *device) nvml.Return {
			name, ret := d.handle.GetName()
			if ret == nvml.SUCCESS {
				d.info.Product = name
			}
			return ret
		}},
		{"nvmlDeviceGetMemoryInfo", func(d *device) nvml.Return {
			memory, ret := d.handle.GetMemoryInfo()
			if ret == nvml.SUCCESS {
				d.info.MemoryBytes = memory.Total
			}
			return ret
		}},
		{"nvmlDeviceGetPciInfo", func(d *device) nvml.Return {
			pci, ret := d.handle.GetPciInfo()
			if ret == nvml.SUCCESS {
				d.address = addressOf(pci)
				d.info.PCIBusID = busID(pci)
			}
			return ret
		}},
		{"nvmlDeviceGetMinorNumber", func(d *device) nvml.Return {
			minor, ret := d.handle.GetMinorNumber()
			if ret == nvml.SUCCESS {
				d.info.Minor = minor
			}
			return ret
		}},
		{"nvmlDeviceGetCudaComputeCapability", func(d *device) nvml.Return {
			major, minor, ret := d.handle.GetCudaComputeCapability()
			if ret == nvml.SUCCESS {
				d.info.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
			}
			return ret
		}},
	}
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
