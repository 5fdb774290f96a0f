// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// pcieRoot returns the PCIe root complex that a GPU is attached to, as sysfs has it; empty if
// that is unknown.
func pcieRoot(of *gpu.Info) string {
	root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(busAddress(of.PCIBusID))
	if err != nil || root.Value.StringValue == nil {
		return ""
	}
	return *root.Value.StringValue
}

// domainDigits is how many digits the domain of a PCI address has in sysfs. NVML has more.
const domainDigits = 4

// busAddress converts an address on the PCI bus from NVML's form, 00000000:1B:00.0, to that of
// sysfs, 0000:1b:00.0.
func busAddress(nvml string) string {
	domain, rest, _ := strings.Cut(strings.ToLower(nvml), ":")
	if extra := len(domain) - domainDigits; extra > 0 && strings.Trim(domain[:extra], "0") == "" {
		domain = domain[extra:]
	}
	return domain + ":" + rest
}
