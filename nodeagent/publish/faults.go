// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"falldio.github.io/gpu-controller/nodeagent/gpu"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Faults returns the faults, by UUID, that the Node's inventory annotation tells
// of: what an earlier life of the agent has found. What can't be read tells of
// none.
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
	for i := range published.GPUs {
		if fault := published.GPUs[i].Fault; fault != nil {
			faults[published.GPUs[i].UUID] = gpu.Fault{
				Reason: fault.Reason, Since: fault.Since, NeedsReset: fault.NeedsReset, BootID: fault.BootID,
			}
		}
	}
	return faults, nil
}
