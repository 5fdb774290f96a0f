// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Action is the recovery action that the driver requires for a GPU. A later driver may require
// actions that have no name here; they are kept by their number.
type Action int

// The actions, in the order of nvmlDeviceGpuRecoveryAction_t in nvml.h, after ActionUnknown.
const (
	// ActionUnknown: the driver does not report it.
	ActionUnknown Action = iota
	// ActionNone: no action is required.
	ActionNone
	// ActionGPUReset: the GPU must be reset.
	ActionGPUReset
	// ActionNodeReboot: the operating system must be rebooted.
	ActionNodeReboot
	// ActionDrainP2P: programs that exchange data with other GPUs must end.
	ActionDrainP2P
	// ActionDrainAndReset: the GPU has lost capacity; it must be reset once its programs have
	// ended.
	ActionDrainAndReset
	// ActionRecoverIMEXDomain: the IMEX domain, which shares memory between nodes, must be
	// recovered.
	ActionRecoverIMEXDomain
	// ActionBusReset: the PCI bus of the GPU must be reset.
	ActionBusReset
	// ActionSystemReboot: the machine must be restarted, not only its operating system.
	ActionSystemReboot
)

// actionOfNone is NVML's number of ActionNone; the other numbers follow in the same order.
const actionOfNone = 0

// NumberedAction returns the action with NVML's number. Negative numbers mean nothing.
func NumberedAction(number int) Action {
	if number < actionOfNone {
		return ActionUnknown
	}
	return ActionNone + Action(number-actionOfNone)
}

// trait is what is known of an action.
type trait struct {
	name string
	// sentence says what an operator has to do.
	sentence string
	// endedByReset is true if a reset of the GPU fulfils it.
	endedByReset bool
	// severity orders the actions by how much of the machine they disturb.
	severity int
}

func traits() []trait {
	return []trait{
		ActionUnknown:           {},
		ActionNone:              {name: "None"},
		ActionGPUReset:          {name: "GPUReset", sentence: "the driver requires a reset of the GPU", endedByReset: true, severity: 3},
		ActionNodeReboot:        {name: "NodeReboot", sentence: "the driver requires a reboot of the node", severity: 7},
		ActionDrainP2P:          {name: "DrainP2P", sentence: "the driver requires that programs which exchange data with other GPUs end", severity: 1},
		ActionDrainAndReset:     {name: "DrainAndReset", sentence: "the driver requires a reset of the GPU when its programs have ended", endedByReset: true, severity: 2},
		ActionRecoverIMEXDomain: {name: "RecoverIMEXDomain", sentence: "the driver requires that the IMEX domain is recovered", severity: 5},
		ActionBusReset:          {name: "BusReset", sentence: "the driver requires a reset of the GPU's PCI bus", endedByReset: true, severity: 4},
		ActionSystemReboot:      {name: "SystemReboot", sentence: "the driver requires a restart of the whole machine", severity: 8},
	}
}

// unknownSeverity ranks actions without a name below a reboot: nothing says that they need one.
const unknownSeverity = 6

func (a Action) trait() trait {
	known := traits()
	if a >= 0 && int(a) < len(known) {
		return known[a]
	}
	number := int(a-ActionNone) + actionOfNone
	return trait{
		name:     unnamed + strconv.Itoa(number),
		sentence: fmt.Sprintf("the driver requires the recovery action %d, which this agent does not know (see nvml.h)", number),
		severity: unknownSeverity,
	}
}

// unnamed begins the names of actions that are only known by their number.
const unnamed = "Unknown"

// String returns the action's name, "NodeReboot" or "Unknown8"; empty for ActionUnknown.
func (a Action) String() string { return a.trait().name }

// ParseAction returns the action with a name that String returns, and whether there is one.
func ParseAction(name string) (action Action, known bool) {
	for place, trait := range traits() {
		if trait.name == name {
			return Action(place), true
		}
	}
	number, err := strconv.Atoi(strings.TrimPrefix(name, unnamed))
	action = NumberedAction(number)
	if err != nil || action.String() != name {
		return ActionUnknown, false
	}
	return action, true
}

// Required reports whether something has to be done.
func (a Action) Required() bool { return a != ActionUnknown && a != ActionNone }

// Sentence says what an operator has to do: "the driver requires a reboot of the node"; empty
// if nothing.
func (a Action) Sentence() string { return a.trait().sentence }

// EndedByReset reports whether a reset of the GPU fulfils the action. The others end with a
// boot, or when the driver no longer requires them.
func (a Action) EndedByReset() bool { return a.trait().endedByReset }

// Severity orders actions: of two, the one that disturbs more of the machine has the higher
// one; 0 if nothing is required.
func (a Action) Severity() int { return a.trait().severity }
