// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// newSwitched returns an open Source of four GPUs on switches.
func newSwitched(t *testing.T) *Source {
	t.Helper()
	source := New(mustParse(t, "{count: 4, nvlink: {groupSize: 4, links: 18}}"), "n1", newClock())
	mustOpen(t, source)
	return source
}

func mustOpen(t *testing.T, source *Source) gpu.Inventory {
	t.Helper()
	inventory, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	return inventory
}

func mustRead(t *testing.T, source *Source, index int) gpu.Sample {
	t.Helper()
	sample, err := source.Read(UUID("n1", index))
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

func TestTheDriverRequiresWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	source := newSwitched(t)
	if action := mustRead(t, source, 1).Action; action != gpu.ActionUnknown {
		t.Errorf("without a fault it requires %q", action)
	}
	inject(t, source, Fault{GPU: new(1), Fault: RecoveryAction, Action: "NodeReboot"})
	if action := mustRead(t, source, 1).Action; action != gpu.ActionNodeReboot {
		t.Errorf("it requires %q, want a reboot", action)
	}
	inject(t, source, Fault{Fault: Recovered})
	if action := mustRead(t, source, 1).Action; action != gpu.ActionNone {
		t.Errorf("after the recovery it requires %q, want nothing", action)
	}
	if action := mustRead(t, source, 2).Action; action != gpu.ActionUnknown {
		t.Errorf("of another GPU it requires %q", action)
	}
}

func TestRowsOfTheMemory(t *testing.T) {
	t.Parallel()
	source := newSwitched(t)
	inject(t, source, Fault{GPU: new(1), Fault: RowRemapPending}, Fault{GPU: new(2), Fault: RowRemapFailure})
	rows := func() (all [][2]float64) {
		for index := range 4 {
			values := mustRead(t, source, index).Values
			all = append(all, [2]float64{values[gpu.RowRemapPending], values[gpu.RowRemapFailure]})
		}
		return all
	}
	if diff := cmp.Diff([][2]float64{{0, 0}, {1, 0}, {0, 1}, {0, 0}}, rows()); diff != "" {
		t.Errorf("pending and failed (-want +got):\n%s", diff)
	}
	inject(t, source, Fault{Fault: Recovered})
	if diff := cmp.Diff(make([][2]float64, 4), rows()); diff != "" {
		t.Errorf("pending and failed after the recovery (-want +got):\n%s", diff)
	}
}

func TestAGPUOutsideTheFabricHasNoLinks(t *testing.T) {
	t.Parallel()
	source := newSwitched(t)
	if fabric := mustRead(t, source, 1).Fabric; fabric != gpu.FabricJoined {
		t.Errorf("the fabric is %d before", fabric)
	}
	inject(t, source, Fault{GPU: new(1), Fault: FabricNotReady})
	if sample, err := source.Read(UUID("n1", 1)); !errors.Is(err, gpu.ErrStale) || sample.Fabric != gpu.FabricNotReady {
		t.Errorf("got %v, fabric %d; want gpu.ErrStale and a fabric that is not ready", err, sample.Fabric)
	}
	mustRead(t, source, 0) // another one is as it was
	inventory := mustOpen(t, source)
	if diff := cmp.Diff([]int{0, gpu.Unknown, 0, 0}, inventory.NVLinkGroups()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	inject(t, source, Fault{Fault: Recovered})
	inventory = mustOpen(t, source)
	if diff := cmp.Diff([]int{0, 0, 0, 0}, inventory.NVLinkGroups()); diff != "" {
		t.Errorf("groups after the recovery (-want +got):\n%s", diff)
	}
	if fabric := mustRead(t, source, 1).Fabric; fabric != gpu.FabricJoined {
		t.Errorf("the fabric is %d afterwards", fabric)
	}
}

func TestMIGModeChangesTheInventory(t *testing.T) {
	t.Parallel()
	source := newSwitched(t)
	inject(t, source, Fault{GPU: new(1), Fault: MIG})
	if sample, err := source.Read(UUID("n1", 1)); !errors.Is(err, gpu.ErrStale) || sample.Values[gpu.MIGMode] != 1 {
		t.Errorf("got %v, mode %v; want gpu.ErrStale and MIG", err, sample.Values[gpu.MIGMode])
	}
	inventory := mustOpen(t, source)
	for _, info := range inventory.GPUs {
		if info.MIG != (info.Index == 1) {
			t.Errorf("GPU %d: MIG is %v", info.Index, info.MIG)
		}
	}
	mustRead(t, source, 1)
}
