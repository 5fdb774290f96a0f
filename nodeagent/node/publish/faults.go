// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Faults returns the faults, by UUID, in the Node's inventory annotation, which a previous
// run of the agent has found. A missing annotation has none: deleting it while the agent is
// stopped declares the GPUs repaired. A missing driver is not a fault of a GPU.
func (v *View) Faults() (map[string]gpu.Fault, error) {
	node := v.Node()
	if node == nil || node.Annotations[inventory.Annotation] == "" {
		return nil, nil
	}
	published, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		return nil, err
	}
	faults := map[string]gpu.Fault{}
	for uuid, fault := range faultsOf(published) {
		if fault.Reason != health.ReasonNoDriver {
			faults[uuid] = labels.Fault(fault)
		}
	}
	return faults, nil
}

func faultsOf(list *inventory.Inventory) map[string]*inventory.Fault {
	faults := map[string]*inventory.Fault{}
	for i := range list.GPUs {
		if fault := list.GPUs[i].Fault; fault != nil {
			faults[list.GPUs[i].UUID] = fault
		}
	}
	return faults
}

// adoptFaults adopts from the published annotation when its faults were noticed: of two
// agents, as during an update, the first one wins. Otherwise they would overwrite each
// other forever.
func adoptFaults(list *inventory.Inventory, have string) {
	ours := faultsOf(list)
	if len(ours) == 0 || have == "" {
		return
	}
	published, err := inventory.Parse(have)
	if err != nil {
		return
	}
	theirs := faultsOf(published)
	for uuid, fault := range ours {
		if their := theirs[uuid]; their != nil && their.Reason == fault.Reason {
			adoptFault(fault, their)
		}
	}
}

func adoptFault(ours, theirs *inventory.Fault) {
	if theirs.Since.Before(ours.Since) {
		ours.Since = theirs.Since
	}
	if !ours.NeedsReset || !theirs.NeedsReset || ours.BootID != theirs.BootID {
		return // it has been reset since, or needs another reset
	}
	for name, value := range theirs.ResetCounters {
		if own, known := ours.ResetCounters[name]; known && own < value {
			return // theirs were recorded later
		}
	}
	if len(theirs.ResetCounters) > 0 {
		ours.ResetCounters = theirs.ResetCounters
	}
}
