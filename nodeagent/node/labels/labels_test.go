// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const gib = 1 << 30

func device(index int, change func(*gpu.Device)) gpu.Device {
	d := gpu.Device{
		Info: gpu.Info{
			Index: index, UUID: string(rune('a' + index)), Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 * gib,
			NUMANode: index / 2, ComputeCapability: "9.0",
		},
		NVLinkGroup: 0,
		Values:      gpu.Values{gpu.MemoryFree: 60 * gib},
	}
	if change != nil {
		change(&d)
	}
	return d
}

func snapshot(devices ...gpu.Device) *gpu.Snapshot {
	return &gpu.Snapshot{Driver: gpu.Driver{Version: "570.124.06", CUDA: "12.8"}, Devices: devices}
}

// missing is a snapshot of a node that should have more GPUs than it has.
func missing(count int, devices ...gpu.Device) *gpu.Snapshot {
	s := snapshot(devices...)
	s.Missing = count
	return s
}

func broken(d *gpu.Device) {
	d.Fault = &gpu.Fault{Reason: "XID79", Since: time.Unix(1000, 999), NeedsReset: true, BootID: "b", ResetCounters: gpu.Values{gpu.Energy: 7}}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	all := map[string]string{
		"falldio.com/gpu": "h100-80gb-hbm3", "falldio.com/gpu-count": "2", "falldio.com/gpu-memory": "81920",
		"falldio.com/gpu-driver": "570.124.06", "falldio.com/gpu-cuda": "12.8", "falldio.com/gpu-compute-capability": "9.0",
		"falldio.com/gpu-health": "Healthy", "falldio.com/gpu-free-memory": "75",
	}
	tests := map[string]struct {
		snapshot *gpu.Snapshot
		options  Options
		change   map[string]string // "" for a label that is missing
	}{
		"equal GPUs have all labels": {snapshot(device(0, nil), device(1, nil)), Options{}, nil},
		"the model can be overridden": {
			snapshot(device(0, nil), device(1, nil)), Options{Model: "mine"}, map[string]string{"falldio.com/gpu": "mine"},
		},
		"some broken GPUs degrade the node": {
			snapshot(device(0, broken), device(1, nil)), Options{}, map[string]string{"falldio.com/gpu-health": "Degraded"},
		},
		"missing GPUs degrade it, too": {
			missing(1, device(0, nil), device(1, nil)), Options{}, map[string]string{"falldio.com/gpu-health": "Degraded"},
		},
		"missing GPUs do not make up for broken ones": {
			missing(1, device(0, broken), device(1, broken)), Options{}, map[string]string{"falldio.com/gpu-health": "Unhealthy"},
		},
		"all broken GPUs make it unhealthy": {
			snapshot(device(0, broken), device(1, broken)), Options{}, map[string]string{"falldio.com/gpu-health": "Unhealthy"},
		},
		"several models are none": {
			snapshot(device(0, nil), device(1, func(d *gpu.Device) { d.Product, d.ComputeCapability = "Tesla T4", "7.5" })), Options{},
			map[string]string{"falldio.com/gpu": "", "falldio.com/gpu-compute-capability": ""},
		},
		"the smallest memory counts": {
			snapshot(device(0, nil), device(1, func(d *gpu.Device) { d.MemoryBytes = 40 * gib; d.Values = nil })), Options{},
			map[string]string{"falldio.com/gpu-memory": "40960"},
		},
		"what the driver does not report has no label": {
			&gpu.Snapshot{Devices: []gpu.Device{device(0, func(d *gpu.Device) { d.Values = nil }), device(1, func(d *gpu.Device) { d.Values = nil })}}, Options{},
			map[string]string{"falldio.com/gpu-driver": "", "falldio.com/gpu-cuda": "", "falldio.com/gpu-free-memory": ""},
		},
		"several models are none, and an unknown one is not the same": {
			snapshot(device(0, nil), device(1, func(d *gpu.Device) { d.Product = "" })), Options{}, map[string]string{"falldio.com/gpu": ""},
		},
		"memory that is unknown has no label": {
			snapshot(device(0, nil), device(1, func(d *gpu.Device) { d.MemoryBytes, d.Values = 0, nil })), Options{},
			map[string]string{"falldio.com/gpu-memory": ""},
		},
		"free memory of a GPU whose memory is unknown does not count": {
			snapshot(device(0, nil), device(1, func(d *gpu.Device) { d.MemoryBytes, d.Values = 0, gpu.Values{gpu.MemoryFree: 20 * gib} })), Options{},
			map[string]string{"falldio.com/gpu-memory": "", "falldio.com/gpu-free-memory": "75"},
		},
		"odd characters are replaced": {
			&gpu.Snapshot{Driver: gpu.Driver{Version: "570 (beta)"}, Devices: []gpu.Device{device(0, nil), device(1, nil)}}, Options{},
			map[string]string{"falldio.com/gpu-driver": "570-beta", "falldio.com/gpu-cuda": ""},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{}
			for key, value := range all {
				if changed, differs := test.change[key]; differs {
					value = changed
				}
				if value != "" {
					want[key] = value
				}
			}
			if diff := cmp.Diff(want, Labels(test.snapshot, nil, test.options)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
	if got := Labels(snapshot(), all, Options{Model: "mine"}); len(got) != 0 {
		t.Errorf("a node without GPUs has labels: %v", got)
	}
	want := map[string]string{"falldio.com/gpu-health": "Unhealthy"}
	if diff := cmp.Diff(want, Labels(missing(8), all, Options{Model: "mine"})); diff != "" {
		t.Errorf("labels of a node whose GPUs are all missing (-want +got):\n%s", diff)
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	other := device(1, func(d *gpu.Device) { d.Product = "Tesla T4" })
	if Mixed(snapshot(), Options{}) || Mixed(snapshot(device(0, nil), device(1, nil)), Options{}) {
		t.Error("equal GPUs are called mixed")
	}
	if !Mixed(snapshot(device(0, nil), other), Options{}) {
		t.Error("different GPUs are not called mixed")
	}
	if Mixed(snapshot(device(0, nil), other), Options{Model: "mine"}) {
		t.Error("an override does not settle it")
	}
	unknown := func(d *gpu.Device) { d.Product = "" }
	if Mixed(snapshot(device(0, unknown), device(1, unknown)), Options{}) || Mixed(snapshot(device(0, nil), device(1, unknown)), Options{}) {
		t.Error("what is unknown is called another model")
	}
	if !Mixed(snapshot(device(0, unknown), device(1, nil), other), Options{}) {
		t.Error("different GPUs beside an unknown one are not called mixed")
	}
}

func TestFreeMemoryHasHysteresis(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		now    float64
		before string
		want   int
	}{
		"at first it is rounded down":          {49.9, "", 25},
		"nothing free":                         {0, "", 0},
		"all free":                             {100, "", 75},
		"a little more changes nothing":        {54.9, "25", 25},
		"much more does":                       {55, "25", 50},
		"a little less changes nothing":        {45.1, "50", 50},
		"much less does":                       {44.9, "50", 25},
		"a leap goes where it should":          {99, "0", 75},
		"an invalid previous label is ignored": {60, "sixty", 50},
		"nor is an edge that there is not":     {60, "55", 50},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := bucket(test.now, test.before); got != test.want {
				t.Errorf("%v after %q is %d, want %d", test.now, test.before, got, test.want)
			}
		})
	}
}

func TestFaultsSurviveTheAnnotation(t *testing.T) {
	t.Parallel()
	for _, want := range []gpu.Fault{
		{Reason: "Lost", Since: time.Unix(1000, 0).UTC()},
		{
			Reason: "XID79", Since: time.Unix(1000, 0).UTC(), NeedsReset: true, BootID: "b",
			ResetCounters: gpu.Values{gpu.Energy: 5e9 + 0.125, gpu.ECCCorrected: 3, gpu.ECCUncorrected: 0},
		},
		{
			Reason: "XID94", Since: time.Unix(1000, 0).UTC(), NeedsReset: true, BootID: "b",
			Action: gpu.ActionNodeReboot, Repeated: "3 times in 24h",
		},
		{Reason: "RecoveryRequired", Since: time.Unix(1000, 0).UTC(), BootID: "b", Action: gpu.NumberedAction(8)},
	} {
		if diff := cmp.Diff(want, Fault(inventoryFault(&want))); diff != "" {
			t.Errorf("fault (-want +got):\n%s", diff)
		}
	}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	loner := device(1, func(d *gpu.Device) {
		d.NVLinkGroup, d.NUMANode, d.MIG = gpu.Unknown, gpu.Unknown, true
		d.PastFaults = []time.Time{time.Unix(900, 1), time.Unix(1000, 999)}
	})
	broken(&loner)
	got := Inventory(snapshot(device(0, nil), loner), Options{})
	want := inventory.Inventory{GPUs: []inventory.GPU{
		{Index: 0, UUID: "a", Model: "h100-80gb-hbm3", MemoryMiB: 81920, NVLinkGroup: new(0), NUMANode: new(0), Health: "Healthy"},
		{
			Index: 1, UUID: "b", Model: "h100-80gb-hbm3", MemoryMiB: 81920, MIG: true, Health: "Unhealthy",
			PastFaults: []time.Time{time.Unix(900, 0).UTC(), time.Unix(1000, 0).UTC()},
			Fault: &inventory.Fault{
				Reason: "XID79", Since: time.Unix(1000, 0).UTC(), NeedsReset: true, BootID: "b", ResetCounters: map[string]float64{"energy": 7},
			},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}
