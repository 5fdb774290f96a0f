// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Histories returns, by UUID, what a previous run of the agent has left in the Node's inventory
// annotation: the faults of the GPUs, and when they were unhealthy before. A missing annotation
// has none: deleting it while the agent is stopped declares the GPUs repaired. A missing driver
// is not a fault of a GPU.
func (v *View) Histories() (map[string]gpu.History, error) {
	node := v.Node()
	if node == nil || node.Annotations[inventory.Annotation] == "" {
		return nil, nil
	}
	return historiesIn(node.Annotations[inventory.Annotation])
}

// historiesIn returns the histories in an inventory.
func historiesIn(text string) (map[string]gpu.History, error) {
	published, err := inventory.Parse(text)
	if err != nil {
		return nil, err
	}
	histories := map[string]gpu.History{}
	for i := range published.GPUs {
		if history := historyOf(&published.GPUs[i]); history.Fault != nil || history.PastFaults != nil {
			histories[published.GPUs[i].UUID] = history
		}
	}
	return histories, nil
}

func historyOf(published *inventory.GPU) gpu.History {
	history := gpu.History{PastFaults: published.PastFaults}
	if fault := published.Fault; fault != nil && fault.Reason != health.ReasonNoDriver {
		history.Fault = new(labels.Fault(fault))
	}
	return history
}

// adopt adopts from the published annotation when its faults were noticed: of two agents, as
// during an update, the first one wins. Otherwise they would overwrite each other forever.
func adopt(list *inventory.Inventory, have string) {
	if have == "" {
		return
	}
	published, err := inventory.Parse(have)
	if err != nil {
		return
	}
	theirs := make(map[string]*inventory.GPU, len(published.GPUs))
	for i := range published.GPUs {
		theirs[published.GPUs[i].UUID] = &published.GPUs[i]
	}
	for i := range list.GPUs {
		our := &list.GPUs[i]
		their := theirs[our.UUID]
		if their == nil {
			continue
		}
		our.PastFaults = earlier(our.PastFaults, their.PastFaults)
		if our.Fault != nil && their.Fault != nil && their.Fault.Reason == our.Fault.Reason {
			adoptFault(our.Fault, their.Fault)
		}
	}
}

// sameFault is how far apart two agents may notice one fault.
const sameFault = time.Minute

// earlier returns the earlier time of each fault, if two agents mean the same ones, or else
// ours.
func earlier(ours, theirs []time.Time) []time.Time {
	if len(ours) != len(theirs) {
		return ours
	}
	first := slices.Clone(ours)
	for i, their := range theirs {
		if ours[i].Sub(their).Abs() > sameFault {
			return ours
		}
		if their.Before(ours[i]) {
			first[i] = their
		}
	}
	return first
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
