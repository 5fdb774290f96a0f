// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// baseline is the state of a GPU when the Source was opened, as far as the inventory depends
// on it: Fabric Manager may bring up the links only later.
type baseline struct {
	fabric gpu.Fabric
	// links is the number of active NVLink connections, if counted is true.
	links   int
	counted bool
	// slices are the UUIDs of its MIG devices, including those that are not given out, if
	// listed is true.
	slices []string
	listed bool
}

// readFabric reads the state of all GPUs in the fabric, for the baseline.
func (s *session) readFabric() {
	for _, device := range s.devices {
		if device.problem == nil {
			device.opened.fabric = s.fabricOf(device)
		}
	}
}

// fabricOf returns a GPU's state in the fabric; unknown if it can't be read.
func (s *session) fabricOf(d *device) gpu.Fabric {
	sample := gpu.Sample{Values: gpu.Values{}}
	for i := range s.readers {
		if s.readers[i].quantities[0] == gpu.FabricReady {
			_ = s.readers[i].read(d, &sample) // a failure leaves the state unknown
		}
	}
	return sample.Fabric
}

// changed returns an error that is gpu.ErrStale if a sample shows that the inventory no
// longer holds.
func (d *device) changed(sample *gpu.Sample) error {
	if d.opened.fabric != gpu.FabricUnknown && sample.Fabric != gpu.FabricUnknown && sample.Fabric != d.opened.fabric {
		return d.stale("its state in the NVLink fabric has changed")
	}
	if links, counted := sample.Values[gpu.NVLinks]; counted && d.opened.counted && int(links) != d.opened.links {
		return d.stale(fmt.Sprintf("it has %d active NVLinks instead of %d", int(links), d.opened.links))
	}
	if mode, known := sample.Values[gpu.MIGMode]; known && (mode > 0) != d.info.MIG {
		return d.stale("its MIG mode has changed")
	}
	return nil
}

func (d *device) stale(why string) error {
	return fmt.Errorf("%w: GPU %s: %s", gpu.ErrStale, d.info.UUID, why)
}
