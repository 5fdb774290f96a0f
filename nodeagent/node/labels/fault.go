// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// counterNames has the names of counters in the annotation.
var counterNames = map[gpu.Quantity]string{
	gpu.Energy:         "energy",
	gpu.ECCCorrected:   "eccCorrected",
	gpu.ECCUncorrected: "eccUncorrected",
}

// inventoryFault converts a fault to its form in the annotation.
func inventoryFault(fault *gpu.Fault) *inventory.Fault {
	if fault == nil {
		return nil
	}
	published := &inventory.Fault{
		Reason:     fault.Reason,
		Since:      fault.Since.UTC().Truncate(time.Second),
		NeedsReset: fault.NeedsReset,
		BootID:     fault.BootID,
	}
	for quantity, name := range counterNames {
		if value, known := fault.ResetCounters[quantity]; known {
			if published.ResetCounters == nil {
				published.ResetCounters = map[string]float64{}
			}
			published.ResetCounters[name] = value
		}
	}
	return published
}

// Fault converts a fault from its form in the annotation.
func Fault(published *inventory.Fault) gpu.Fault {
	fault := gpu.Fault{
		Reason: published.Reason, Since: published.Since, NeedsReset: published.NeedsReset, BootID: published.BootID,
	}
	for quantity, name := range counterNames {
		if value, known := published.ResetCounters[name]; known {
			if fault.ResetCounters == nil {
				fault.ResetCounters = gpu.Values{}
			}
			fault.ResetCounters[quantity] = value
		}
	}
	return fault
}
