// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// pciAddress identifies a device on the PCI bus. It consists of numbers, since the two
// strings in nvml.PciInfo have domains of different lengths.
type pciAddress struct {
	domain, bus, device uint32
}

func addressOf(pci nvml.PciInfo) pciAddress {
	return pciAddress{domain: pci.Domain, bus: pci.Bus, device: pci.Device}
}

// busID returns the address as NVIDIA writes it: "00000000:1B:00.0".
func busID(pci nvml.PciInfo) string {
	var id strings.Builder
	for _, char := range pci.BusId {
		if char == 0 {
			break
		}
		id.WriteByte(byte(char)) //nolint:gosec // a char of C
	}
	if id.Len() == 0 { // older drivers, whose domain has fewer than 8 digits
		return fmt.Sprintf("%08X:%02X:%02X.0", pci.Domain, pci.Bus, pci.Device)
	}
	return id.String()
}

// numaNode returns the NUMA node that Linux reports for a GPU. NVML's own
// nvmlDeviceGetNumaNodeId is something else: the node, without CPUs, that the GPU's memory
// forms on machines like the GH200.
func numaNode(sysFS fs.FS, busID string) int {
	// Linux writes domains with 4 digits or as many more as it takes.
	id := strings.ToLower(busID)
	for len(id) > len("0000:00:00.0") && id[0] == '0' {
		id = id[1:]
	}
	text, err := fs.ReadFile(sysFS, path.Join(pciDevices, id, "numa_node"))
	if err != nil {
		return gpu.Unknown
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return gpu.Unknown
	}
	return node
}
