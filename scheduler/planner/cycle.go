// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import fwk "k8s.io/kube-scheduler/framework"

// cycleKey is where a scheduling cycle keeps its Decision.
const cycleKey fwk.StateKey = "falldio.com/decision"

// Cycle passes the Decision of plugin GPUGang to the other plugins in a scheduling cycle.
type Cycle struct {
	Decision
}

var _ fwk.StateData = (*Cycle)(nil)

// Clone implements fwk.StateData. A Cycle does not change.
func (c *Cycle) Clone() fwk.StateData { return c }

// Write stores the Cycle for the other plugins.
func (c *Cycle) Write(state fwk.CycleState) { state.Write(cycleKey, c) }

// CycleOf returns the Cycle that GPUGang stored; nil for Pods that it does not handle.
func CycleOf(state fwk.CycleState) *Cycle {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil
	}
	cycle, _ := data.(*Cycle)
	return cycle
}
