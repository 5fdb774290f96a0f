// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// divided returns a GPU in MIG mode, with slices of these profiles.
func divided(index int, profiles ...string) gpu.Device {
	memory := map[string]uint64{"1g.10gb": 9984 << 20, "1g.10gb+me": 9984 << 20, "3g.40gb": 40448 << 20}
	return device(index, func(d *gpu.Device) {
		d.MIG = true
		for place, profile := range profiles {
			d.Slices = append(d.Slices, gpu.Slice{UUID: "MIG-" + d.UUID + string(rune('0'+place)), Profile: profile, MemoryBytes: memory[profile]})
		}
	})
}

func TestLabelsOfMIGSlices(t *testing.T) {
	t.Parallel()
	brokenSlices := divided(1, "1g.10gb")
	broken(&brokenSlices)
	smaller := divided(1, "1g.10gb")
	smaller.Slices[0].MemoryBytes = 9000 << 20
	unknown := divided(0, "1g.10gb")
	unknown.Slices[0].MemoryBytes = 0
	tests := map[string]struct {
		devices []gpu.Device
		want    map[string]string
	}{
		"whole GPUs":           {[]gpu.Device{device(0, nil)}, map[string]string{}},
		"MIG mode without any": {[]gpu.Device{divided(0)}, map[string]string{}},
		"one profile on all GPUs": {[]gpu.Device{divided(0, "1g.10gb", "1g.10gb"), brokenSlices}, map[string]string{
			"falldio.com/mig-1g.10gb.count": "3", "falldio.com/mig-1g.10gb.memory": "9984", "falldio.com/mig-strategy": "single",
		}},
		"one profile beside a whole GPU": {[]gpu.Device{divided(0, "1g.10gb"), device(1, nil)}, map[string]string{
			"falldio.com/mig-1g.10gb.count": "1", "falldio.com/mig-1g.10gb.memory": "9984", "falldio.com/mig-strategy": "mixed",
		}},
		"one profile beside a GPU that is not divided yet": {[]gpu.Device{divided(0, "1g.10gb"), divided(1)}, map[string]string{
			"falldio.com/mig-1g.10gb.count": "1", "falldio.com/mig-1g.10gb.memory": "9984", "falldio.com/mig-strategy": "mixed",
		}},
		"two profiles": {[]gpu.Device{divided(0, "3g.40gb", "1g.10gb+me"), divided(1, "3g.40gb")}, map[string]string{
			"falldio.com/mig-3g.40gb.count": "2", "falldio.com/mig-3g.40gb.memory": "40448",
			"falldio.com/mig-1g.10gb.me.count": "1", "falldio.com/mig-1g.10gb.me.memory": "9984", "falldio.com/mig-strategy": "mixed",
		}},
		"the smallest of different ones": {[]gpu.Device{divided(0, "1g.10gb"), smaller}, map[string]string{
			"falldio.com/mig-1g.10gb.count": "2", "falldio.com/mig-1g.10gb.memory": "9000", "falldio.com/mig-strategy": "single",
		}},
		"of unknown memory": {[]gpu.Device{unknown}, map[string]string{
			"falldio.com/mig-1g.10gb.count": "1", "falldio.com/mig-strategy": "single",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for label, value := range Labels(snapshot(test.devices...), nil, Options{}) {
				if problems := validation.IsQualifiedName(label); len(problems) > 0 {
					t.Errorf("%s: %v", label, problems)
				}
				if strings.Contains(label, "mig") {
					got[label] = value
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesDoNotChangeTheLabelsOfTheGPUs(t *testing.T) {
	t.Parallel()
	labels := Labels(snapshot(divided(0, "1g.10gb", "1g.10gb"), divided(1, "1g.10gb")), nil, Options{})
	for label, want := range map[string]string{"falldio.com/gpu": "h100-80gb-hbm3", "falldio.com/gpu-count": "2", "falldio.com/gpu-memory": "81920"} {
		if labels[label] != want {
			t.Errorf("%s is %q, want %q", label, labels[label], want)
		}
	}
}

func TestTheInventoryHasTheSlices(t *testing.T) {
	t.Parallel()
	list := Inventory(snapshot(divided(0, "3g.40gb", "1g.10gb"), device(1, nil)), Options{})
	want := []inventory.Slice{
		{UUID: "MIG-a0", Profile: "3g.40gb", MemoryMiB: 40448}, {UUID: "MIG-a1", Profile: "1g.10gb", MemoryMiB: 9984},
	}
	if diff := cmp.Diff(want, list.GPUs[0].Slices); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if list.GPUs[1].Slices != nil {
		t.Errorf("a whole GPU has slices %v", list.GPUs[1].Slices)
	}
	text, err := list.String()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inventory.Parse(text); err != nil {
		t.Errorf("the annotation is refused: %v", err)
	}
}
