// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"io/fs"
	"path"
	"strings"
)

// pciDevices is the folder in which Linux describes the PCI devices.
const pciDevices = "bus/pci/devices"

// What Linux reports for NVIDIA's GPUs: the vendor, and the classes of VGA and of 3D
// controllers without their programming interface.
const (
	vendorNVIDIA = "0x10de"
	classVGA     = "0x0300"
	class3D      = "0x0302"
)

// driverVersion is there while NVIDIA's kernel module is loaded.
const driverVersion = "driver/nvidia/version"

// DriverLoaded reports whether the machine has GPUs and NVIDIA's kernel module is loaded, going by
// /sys and /proc, which also a process without access to the driver can read.
func DriverLoaded(sysFS, procFS fs.FS) bool {
	_, err := fs.Stat(procFS, driverVersion)
	return err == nil && gpusOnBus(sysFS) > 0
}

// gpusOnBus returns how many GPUs are on the PCI bus for NVIDIA's driver; 0 if unknown.
func gpusOnBus(sysFS fs.FS) int {
	entries, err := fs.ReadDir(sysFS, pciDevices)
	if err != nil {
		return 0
	}
	count := 0
	for _, entry := range entries {
		if device := path.Join(pciDevices, entry.Name()); isGPU(sysFS, device) && isForDriver(sysFS, device) {
			count++
		}
	}
	return count
}

// isGPU reports whether a PCI device is one of NVIDIA's GPUs. The virtual functions of a GPU
// that is shared between virtual machines are none.
func isGPU(sysFS fs.FS, device string) bool {
	if attribute(sysFS, device, "vendor") != vendorNVIDIA {
		return false
	}
	class := attribute(sysFS, device, "class")
	if !strings.HasPrefix(class, classVGA) && !strings.HasPrefix(class, class3D) {
		return false
	}
	_, err := fs.ReadLink(sysFS, path.Join(device, "physfn"))
	return err != nil
}

// isForDriver reports whether NVIDIA's driver has the device, or no driver does, as when
// NVIDIA's has failed to start it. Devices that are passed through to virtual machines have
// another driver, or are reserved for one.
func isForDriver(sysFS fs.FS, device string) bool {
	driver, err := fs.ReadLink(sysFS, path.Join(device, "driver"))
	if err == nil {
		return path.Base(driver) == "nvidia"
	}
	reserved := attribute(sysFS, device, "driver_override")
	return reserved == "" || reserved == "(null)" || reserved == "nvidia"
}

// attribute returns an attribute of a device; empty if it has none.
func attribute(sysFS fs.FS, device, name string) string {
	text, err := fs.ReadFile(sysFS, path.Join(device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
