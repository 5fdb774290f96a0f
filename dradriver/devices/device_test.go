// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const uuid0 = "GPU-6F0A1D5C-8a59-3b0e-a4b6-0ed8a3b1c7b2"

// snapshotOf returns a snapshot with these GPUs; what is not set is that of an H100.
func snapshotOf(changes ...func(*gpu.Device)) *gpu.Snapshot {
	snapshot := &gpu.Snapshot{Driver: gpu.Driver{Version: "570.124.06", CUDA: "12.8"}}
	for index, change := range changes {
		device := gpu.Device{
			Info: gpu.Info{
				Index: index, UUID: fmt.Sprintf("GPU-%08d-8a59-3b0e-a4b6-0ed8a3b1c7b2", index), Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30,
				PCIBusID: "00000000:1B:00.0", NUMANode: 1, ComputeCapability: "9.0",
			},
			NVLinkGroup: 0,
		}
		change(&device)
		snapshot.Devices = append(snapshot.Devices, device)
	}
	return snapshot
}

func asItIs(*gpu.Device) {}

func optionsOf() Options {
	return Options{Effect: resourceapi.DeviceTaintEffectNoSchedule, Described: func(string) bool { return true }, Held: func(string) bool { return false }}
}

// attributesOf returns the attributes as text, with their types.
func attributesOf(device *resourceapi.Device) map[string]string {
	attributes := map[string]string{}
	for name, attribute := range device.Attributes {
		switch {
		case attribute.StringValue != nil:
			attributes[string(name)] = "string " + *attribute.StringValue
		case attribute.IntValue != nil:
			attributes[string(name)] = fmt.Sprint("int ", *attribute.IntValue)
		case attribute.VersionValue != nil:
			attributes[string(name)] = "version " + *attribute.VersionValue
		}
	}
	return attributes
}

func TestWhatSelectorsCanAskFor(t *testing.T) {
	t.Parallel()
	h100 := map[string]string{
		"uuid": "string " + uuid0, "index": "int 0", "model": "string h100-80gb-hbm3", "productName": "string NVIDIA H100 80GB HBM3",
		"nvlinkGroup": "int 0", "numaNode": "int 1", "driverVersion": "version 570.124.6", "cudaVersion": "version 12.8.0",
		"computeCapability": "version 9.0.0",
	}
	with := func(changed map[string]string) map[string]string {
		all := maps.Clone(h100)
		for name, text := range changed {
			if all[name] = text; text == "" {
				delete(all, name)
			}
		}
		return all
	}
	tests := map[string]struct {
		gpu     func(*gpu.Device)
		driver  gpu.Driver
		options func(*Options)
		want    map[string]string
	}{
		"everything is known": {want: h100},
		"unknown things are left out": {
			gpu: func(d *gpu.Device) {
				d.NUMANode, d.NVLinkGroup, d.ComputeCapability, d.Product = gpu.Unknown, gpu.Unknown, "", ""
			},
			driver: gpu.Driver{Version: "next", CUDA: ""},
			want: with(map[string]string{
				"numaNode": "", "nvlinkGroup": "", "computeCapability": "", "model": "", "productName": "", "driverVersion": "", "cudaVersion": "",
			}),
		},
		"the user's name of the model counts": {
			options: func(o *Options) { o.Model = "big" }, want: with(map[string]string{"model": "string big"}),
		},
		"the PCIe root": {
			options: func(o *Options) { o.PCIeRoot = func(*gpu.Info) string { return "pci0000:17" } },
			want:    with(map[string]string{"resource.kubernetes.io/pcieRoot": "string pci0000:17"}),
		},
		"a PCIe root that is unknown": {
			options: func(o *Options) { o.PCIeRoot = func(*gpu.Info) string { return "" } }, want: h100,
		},
		"a long name is cut": {
			gpu:  func(d *gpu.Device) { d.Product = "NVIDIA GPU with a name that is longer than any attribute can be, é" },
			want: with(map[string]string{"model": "string gpu-with-a-name-that-is-longer-than-any-attribute-can-be", "productName": "string NVIDIA GPU with a name that is longer than any attribute can be,"}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot := snapshotOf(func(d *gpu.Device) {
				d.UUID = uuid0
				if test.gpu != nil {
					test.gpu(d)
				}
			})
			if test.driver != (gpu.Driver{}) {
				snapshot.Driver = test.driver
			}
			options := optionsOf()
			if test.options != nil {
				test.options(&options)
			}
			list := Of(snapshot, options)
			if diff := cmp.Diff(test.want, attributesOf(&list[0])); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if want := "gpu-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7b2"; list[0].Name != want || len(validation.IsDNS1123Label(list[0].Name)) > 0 {
				t.Errorf("the device is %s, want %s", list[0].Name, want)
			}
		})
	}
}

func TestWhichGPUsNoNewClaimGets(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	xid := func(d *gpu.Device) { d.Fault = &gpu.Fault{Reason: "XID79", Since: since} }
	tests := map[string]struct {
		gpu         func(*gpu.Device)
		effect      resourceapi.DeviceTaintEffect
		undescribed bool
		held        bool
		want        string
	}{
		"a healthy one has no taint":                             {gpu: asItIs, effect: resourceapi.DeviceTaintEffectNoSchedule},
		"one with a fault":                                       {gpu: xid, effect: resourceapi.DeviceTaintEffectNoSchedule, want: "falldio.com/gpu-unhealthy=XID79:NoSchedule since 12:00"},
		"one with a fault that ends those who have it":           {gpu: xid, effect: resourceapi.DeviceTaintEffectNoExecute, want: "falldio.com/gpu-unhealthy=XID79:NoExecute since 12:00"},
		"one that containers can't get":                          {gpu: asItIs, effect: resourceapi.DeviceTaintEffectNoExecute, undescribed: true, want: "falldio.com/gpu-unhealthy=NotDescribed:NoSchedule"},
		"one that somebody else has given away":                  {gpu: asItIs, effect: resourceapi.DeviceTaintEffectNoExecute, held: true, want: "falldio.com/gpu-in-use=:NoSchedule"},
		"a broken one that somebody has":                         {gpu: xid, effect: resourceapi.DeviceTaintEffectNoSchedule, held: true, want: "falldio.com/gpu-unhealthy=XID79:NoSchedule since 12:00 falldio.com/gpu-in-use=:NoSchedule"},
		"one with a fault that can't be described because of it": {gpu: xid, effect: resourceapi.DeviceTaintEffectNoExecute, undescribed: true, want: "falldio.com/gpu-unhealthy=XID79:NoExecute since 12:00"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := optionsOf()
			options.Effect, options.Described = test.effect, func(string) bool { return !test.undescribed }
			options.Held = func(string) bool { return test.held }
			list := Of(snapshotOf(asItIs, test.gpu), options)
			var taints []string
			for _, taint := range list[1].Taints {
				taints = append(taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
				if taint.TimeAdded != nil {
					taints = append(taints, taint.TimeAdded.Format("since 15:04"))
				}
			}
			if got := strings.Join(taints, " "); got != test.want {
				t.Errorf("taints %q, want %q", got, test.want)
			}
		})
	}
}

func TestAGPUInMIGModeIsNoDevice(t *testing.T) {
	t.Parallel()
	list := Of(snapshotOf(asItIs, func(d *gpu.Device) { d.MIG = true }, asItIs), optionsOf())
	if len(list) != 2 || *list[0].Attributes[Index].IntValue != 0 || *list[1].Attributes[Index].IntValue != 2 {
		t.Errorf("the devices are %+v", list)
	}
}

func TestSlicesAreSmallEnoughForTaints(t *testing.T) {
	t.Parallel()
	for count, want := range map[int][]int{0: {0}, 8: {8}, 64: {64}, 65: {64, 1}, 128: {64, 64}} {
		gpus := make([]func(*gpu.Device), count)
		for i := range gpus {
			gpus[i] = asItIs
		}
		var got []int
		pools := Pool("node-1", Of(snapshotOf(gpus...), optionsOf())).Pools
		for _, slice := range pools["node-1"].Slices {
			got = append(got, len(slice.Devices))
		}
		if diff := cmp.Diff(want, got); diff != "" || len(pools) != 1 {
			t.Errorf("%d GPUs in slices of (-want +got), %d pools:\n%s", count, len(pools), diff)
		}
	}
}
