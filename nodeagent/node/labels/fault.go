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

// toSecond returns a time as the annotation has it.
func toSecond(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// inventoryFault converts a fault to its form in the annotation.
func inventoryFault(fault *gpu.Fault) *inventory.Fault {
	if fault == nil {
		return nil
	}
	text := &inventory.Fault{
		Reason:     fault.Reason,
		Since:      toSecond(fault.Since),
		NeedsReset: fault.NeedsReset,
		Repeated:   fault.Repeated,
		BootID:     fault.BootID,
	}
	if fault.Action.Required() {
		text.RecoveryAction = fault.Action.String()
	}
	for quantity, name := range counterNames {
		if value, known := fault.ResetCounters[quantity]; known {
			if text.ResetCounters == nil {
				text.ResetCounters = map[string]float64{}
			}
			text.ResetCounters[name] = value
		}
	}
	return text
}

// Fault converts a fault from its form in the annotation.
func Fault(published *inventory.Fault) gpu.Fault {
	fault := gpu.Fault{
		Reason: published.Reason, Since: published.Since, NeedsReset: published.NeedsReset, Repeated: published.Repeated, BootID: published.BootID,
	}
	// A name that this version does not know is one that a later version has published. The
	// driver reports its number again.
	fault.Action, _ = gpu.ParseAction(published.RecoveryAction)
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

// pastFaults converts times to their form in the annotation.
func pastFaults(times []time.Time) []time.Time {
	var list []time.Time // nil for none
	for _, at := range times[max(0, len(times)-inventory.MaxPastFaults):] {
		list = append(list, toSecond(at))
	}
	return list
}
