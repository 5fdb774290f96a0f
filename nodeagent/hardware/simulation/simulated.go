// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// simulated is one GPU with its faults.
type simulated struct {
	// info is as the profile has it.
	info           gpu.Info
	reset          time.Time
	eccUncorrected float64
	lost, removed  bool
	delay          time.Duration
	// hung is closed when the GPU answers again; nil if it does not hang.
	hung chan struct{}
	// action is what the driver requires; unknown until a fault makes the driver report it.
	action                    gpu.Action
	remapPending, remapFailed bool
	// hasFabric is true if the GPU is connected by switches.
	hasFabric bool
	changing
	// opened is the state when the Source was opened.
	opened changing
}

// changing is what of a GPU is in the inventory and may change.
type changing struct {
	fabricPending bool
	mig           bool
	slices        []gpu.Slice
}

func (c *changing) same(other *changing) bool {
	return c.fabricPending == other.fabricPending && c.mig == other.mig && slices.Equal(c.slices, other.slices)
}

// initial returns the state of a GPU without faults.
func initial(info *gpu.Info) changing { return changing{mig: info.MIG, slices: info.Slices} }

// found returns what Open finds.
func (g *simulated) found() gpu.Info {
	info := g.info
	info.MIG, info.Slices = g.mig, g.slices
	return info
}

// addTo adds to a sample what does not depend on the load.
func (g *simulated) addTo(sample *gpu.Sample) {
	sample.Action = g.action
	sample.Values[gpu.RowRemapPending] = boolToFloat(g.remapPending)
	sample.Values[gpu.RowRemapFailure] = boolToFloat(g.remapFailed)
	sample.Values[gpu.MIGMode] = boolToFloat(g.mig)
	switch {
	case g.fabricPending:
		sample.Fabric = gpu.FabricNotReady
	case g.hasFabric:
		sample.Fabric = gpu.FabricJoined
	default:
		return
	}
	sample.Values[gpu.FabricReady] = boolToFloat(!g.fabricPending)
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// apply applies a fault of the GPU alone.
func (g *simulated) apply(fault Fault) {
	switch fault.Fault {
	case ECC:
		g.eccUncorrected++
	case Lost:
		g.lost = true
	case Hung:
		if g.hung == nil {
			g.hung = make(chan struct{})
		}
	case Slow:
		g.delay = fault.Delay.Duration
	case RecoveryAction:
		g.action = fault.action()
	case RowRemapPending:
		g.remapPending = true
	case RowRemapFailure:
		g.remapFailed = true
	case FabricNotReady:
		g.fabricPending, g.hasFabric = true, true
	case XID, MIG, Removed, Recovered: // they concern the Source as well
	}
}

// recover ends all faults.
func (g *simulated) recover(now time.Time) {
	if g.hung != nil {
		close(g.hung)
	}
	g.hung, g.delay = nil, 0
	g.lost, g.removed = false, false
	g.remapPending, g.remapFailed = false, false
	g.changing = initial(&g.info)
	g.eccUncorrected, g.reset = 0, now
	if g.action != gpu.ActionUnknown {
		g.action = gpu.ActionNone
	}
}
