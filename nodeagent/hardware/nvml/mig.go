// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const migModeCall = "nvmlDeviceGetMigMode"

// migDeviceCalls are the functions that enumerate MIG devices and say what they are. None of them
// needs an administrator's rights, unlike those that tell the profile of an instance.
var migDeviceCalls = []string{
	"nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
}

// migDevice is a MIG device with its handle, which is valid only as long as nobody changes the
// GPU's instances.
type migDevice struct {
	uuid   string
	handle nvml.Device
}

// readMIG reads whether a GPU is in MIG mode, and its slices.
func (s *session) readMIG(d *device) {
	if !s.symbols.has(migModeCall) {
		return
	}
	mode, _, ret := d.handle.GetMigMode()
	switch {
	case ret == nvml.SUCCESS:
		d.info.MIG = mode == nvml.DEVICE_MIG_ENABLE
	case unsupported(ret):
		d.info.MIG = false
	}
	if !d.info.MIG {
		d.info.Slices = nil
		return
	}
	s.Logger.Info("MIG is enabled: the GPU can't be allocated as a whole, and part of it can't be measured", "gpu", d.info.UUID)
	s.findSlices(d)
}

// findSlices finds a GPU's slices. If the driver fails to list them this time, those known from
// before stay, and the first poll that can list them makes the Source stale.
func (s *session) findSlices(d *device) {
	devices, ret := s.migDevices(d)
	if ret != nvml.SUCCESS {
		s.Logger.Error(callError("nvmlDeviceGetMigDeviceHandleByIndex", ret), "The GPU's MIG devices can't be listed", "gpu", d.info.UUID)
		return
	}
	d.opened.slices, d.opened.listed = uuidsOf(devices), true
	d.info.Slices = nil
	for _, device := range devices {
		if slice, found := s.slice(d, device); found {
			d.info.Slices = append(d.info.Slices, slice)
		}
	}
	if len(devices) == 0 {
		s.Logger.Info("The GPU has no MIG devices, or this process may not see them: see docs/node-agent-parts.md#mig", "gpu", d.info.UUID)
	}
}

// migDevices finds the MIG devices of a GPU.
func (s *session) migDevices(d *device) ([]migDevice, nvml.Return) {
	if !s.symbols.has(migDeviceCalls...) {
		return nil, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	count, ret := d.handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	var found []migDevice
	for index := range count {
		handle, ret := d.handle.GetMigDeviceHandleByIndex(index)
		if ret == nvml.ERROR_NOT_FOUND {
			continue // indexes have gaps
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		uuid, ret := handle.GetUUID()
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		found = append(found, migDevice{uuid, handle})
	}
	return found, nvml.SUCCESS
}

func uuidsOf(devices []migDevice) []string {
	uuids := make([]string, len(devices))
	for i := range devices {
		uuids[i] = devices[i].uuid
	}
	return uuids
}

// slice describes a MIG device. It fails for one that can't be given out: its profile is not
// known, or has no name that a resource can have.
func (s *session) slice(d *device, from migDevice) (slice gpu.Slice, found bool) {
	slice = gpu.Slice{UUID: from.uuid, GPUInstance: gpu.Unknown, ComputeInstance: gpu.Unknown}
	attributes := s.attributes(from.handle)
	name, ret := from.handle.GetName()
	if slice.Profile = profileInName(name); ret != nvml.SUCCESS || slice.Profile == "" {
		slice.Profile = profileFrom(&attributes, d.info.MemoryBytes)
	}
	if !v1.IsMIGProfile(slice.Profile) {
		s.Logger.Info("A MIG device is not given out, as its profile is not supported", "gpu", d.info.UUID, "mig", from.uuid, "name", name, "profile", slice.Profile)
		return gpu.Slice{}, false
	}
	slice.MemoryBytes = attributes.MemorySizeMB << 20
	if memory, ret := from.handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		slice.MemoryBytes = memory.Total
	}
	if id, ret := from.handle.GetGpuInstanceId(); ret == nvml.SUCCESS {
		slice.GPUInstance = id
	}
	if id, ret := from.handle.GetComputeInstanceId(); ret == nvml.SUCCESS {
		slice.ComputeInstance = id
	}
	slice.Capability = s.capability(d.info.Minor, slice.GPUInstance, slice.ComputeInstance)
	return slice, true
}

// attributes returns the attributes of a MIG device; zero if they can't be read.
func (s *session) attributes(handle nvml.Device) nvml.DeviceAttributes {
	if !s.symbols.has("nvmlDeviceGetAttributes") {
		return nvml.DeviceAttributes{}
	}
	attributes, ret := handle.GetAttributes()
	if ret != nvml.SUCCESS {
		return nvml.DeviceAttributes{}
	}
	return attributes
}

// readSlices adds to a sample what is measured of the GPU's slices. It returns an error that is
// gpu.ErrStale if they are no longer those of the inventory.
//
// NVML measures the memory of a MIG device, but neither its utilization nor its power: DCGM's
// profiling does the former.
func (s *session) readSlices(d *device, sample *gpu.Sample) error {
	devices, ret := s.migDevices(d)
	if ret != nvml.SUCCESS {
		// It says nothing about the slices; that the GPU is lost is noticed by others.
		return nil //nolint:nilerr // for the same reason
	}
	if !d.opened.listed || !slices.Equal(uuidsOf(devices), d.opened.slices) {
		return d.stale("its MIG devices have changed")
	}
	sample.Slices = map[string]gpu.Values{}
	for _, device := range devices {
		if memory, ret := device.handle.GetMemoryInfo(); ret == nvml.SUCCESS {
			sample.Slices[device.uuid] = gpu.Values{gpu.MemoryUsed: float64(memory.Used), gpu.MemoryFree: float64(memory.Free)}
		}
	}
	return nil
}

// nameOfMIG precedes the profile in the names of MIG devices.
const nameOfMIG = " MIG "

// profileInName returns the profile in a MIG device's name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
// empty if there is none.
func profileInName(name string) string {
	place := strings.LastIndex(name, nameOfMIG)
	if place < 0 {
		return ""
	}
	return name[place+len(nameOfMIG):]
}
