// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// instance is a MIG device as the driver describes it.
type instance struct {
	uuid, name   string
	attributes   nvml.DeviceAttributes
	instance, ci int
	// memory is in MiB; 0 if it can't be measured.
	used, memory uint64
}

// small and half are MIG devices of an H100.
var (
	small = instance{uuid: "MIG-small", name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", instance: 7, used: 1000, memory: 9984}
	half  = instance{uuid: "MIG-half", name: "NVIDIA H100 80GB HBM3 MIG 3g.40gb", instance: 1, used: 0, memory: 40448}
)

func (i *instance) handle() nvml.Device {
	return &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return i.uuid, nvml.SUCCESS },
		GetNameFunc:              func() (string, nvml.Return) { return i.name, nvml.SUCCESS },
		GetAttributesFunc:        func() (nvml.DeviceAttributes, nvml.Return) { return i.attributes, nvml.SUCCESS },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return i.instance, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return i.ci, nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			if i.memory == 0 {
				return nvml.Memory{}, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.Memory{Total: i.memory << 20, Used: i.used << 20, Free: (i.memory - i.used) << 20}, nvml.SUCCESS
		},
	}
}

// divide puts a GPU into MIG mode, with MIG devices at every second index.
func (n *node) divide(index int, instances ...instance) {
	device := n.gpu(index)
	device.MigMode = nvml.DEVICE_MIG_ENABLE
	device.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	device.GetMigDeviceHandleByIndexFunc = func(place int) (nvml.Device, nvml.Return) {
		if place%2 == 1 || place/2 >= len(instances) {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return instances[place/2].handle(), nvml.SUCCESS
	}
}

func TestTheSlicesOfAGPU(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(1).Minor = 5
	node.divide(1, half, small)
	procFS := fstest.MapFS{"driver/nvidia-caps/mig-minors": {Data: []byte(
		"config 1\nmonitor 2\ngpu1/gi7/ci0/access 4\ngpu5/gi7/access 66\ngpu5/gi7/ci0/access 67\ngpu5/gi71/ci0/access 68\n")}}
	source := node.sourceWith(t, Options{ProcFS: procFS})
	inventory := mustOpen(t, source)
	want := []gpu.Slice{
		{UUID: "MIG-half", Profile: "3g.40gb", MemoryBytes: 40448 << 20, GPUInstance: 1, Capability: gpu.Unknown},
		{UUID: "MIG-small", Profile: "1g.10gb", MemoryBytes: 9984 << 20, GPUInstance: 7, Capability: 67},
	}
	if diff := cmp.Diff(want, inventory.GPUs[1].Slices); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if whole := inventory.GPUs[0]; whole.MIG || whole.Slices != nil {
		t.Errorf("the other GPU is %+v", whole)
	}
	measured := map[string]gpu.Values{
		"MIG-half":  {gpu.MemoryUsed: 0, gpu.MemoryFree: 40448 << 20},
		"MIG-small": {gpu.MemoryUsed: 1000 << 20, gpu.MemoryFree: 8984 << 20},
	}
	if diff := cmp.Diff(measured, mustRead(t, source, "GPU-1").Slices); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
	if others := mustRead(t, source, "GPU-0").Slices; others != nil {
		t.Errorf("of a whole GPU: %v", others)
	}
}

// The attributes are those that NVIDIA's guide lists for the profiles:
// https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
func TestTheProfileOfASlice(t *testing.T) {
	of := func(slices uint32, memory uint64, ofa uint32) nvml.DeviceAttributes {
		return nvml.DeviceAttributes{GpuInstanceSliceCount: slices, ComputeInstanceSliceCount: slices, MemorySizeMB: memory, SharedOfaCount: ofa}
	}
	partly := of(2, 19968, 0)
	partly.ComputeInstanceSliceCount = 1
	tests := []struct {
		name string
		from instance
		want string
	}{
		{"in the name", instance{name: "NVIDIA H100 80GB HBM3 MIG 2g.20gb", attributes: of(1, 9984, 0)}, "2g.20gb"},
		{"with media engines, in the name", instance{name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"}, "1g.10gb+me"},
		{"from the attributes", instance{name: "NVIDIA H100 80GB HBM3", attributes: of(1, 9984, 0)}, "1g.10gb"},
		{"with media engines, from the attributes", instance{attributes: of(1, 9984, 1)}, "1g.10gb+me"},
		{"of double memory", instance{attributes: of(1, 19968, 0)}, "1g.20gb"},
		{"half of the GPU", instance{attributes: of(3, 40448, 0)}, "3g.40gb"},
		{"all of the GPU, which has the media engines in any case", instance{attributes: of(7, 80896, 1)}, "7g.80gb"},
		{"a part of a GPU instance, by its name", instance{name: "NVIDIA H100 80GB HBM3 MIG 1c.2g.20gb"}, ""},
		{"a part of a GPU instance, by its attributes", instance{attributes: partly}, ""},
		{"for graphics without media engines, which has no resource's name", instance{name: "NVIDIA RTX PRO 6000 MIG 1g.24gb-me"}, ""},
		{"unknown", instance{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 1)
			test.from.uuid = "MIG-a"
			node.divide(0, test.from)
			source := node.source(t)
			var profiles []string
			for _, slice := range mustOpen(t, source).GPUs[0].Slices {
				profiles = append(profiles, slice.Profile)
			}
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if diff := cmp.Diff(want, profiles); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
			mustRead(t, source, "GPU-0") // one that is not given out is no change
		})
	}
}

func TestTheMemoryOfASliceThatIsNotMeasured(t *testing.T) {
	node := newH100s(t, 1)
	node.divide(0, instance{uuid: "MIG-a", name: "X MIG 1g.10gb", attributes: nvml.DeviceAttributes{MemorySizeMB: 9984}})
	source := node.source(t)
	if got := mustOpen(t, source).GPUs[0].Slices[0].MemoryBytes; got != 9984<<20 {
		t.Errorf("it has %d bytes", got)
	}
	if got := mustRead(t, source, "GPU-0").Slices; len(got) != 0 {
		t.Errorf("measured: %v", got)
	}
}

func TestSlicesThatChangeAreNoticed(t *testing.T) {
	node := newH100s(t, 1)
	source := node.source(t)
	expect := func(want ...string) {
		t.Helper()
		inventory := mustOpen(t, source)
		usable := inventory.GPUs[0].Usable()
		if len(usable) == 0 {
			usable = nil
		}
		if diff := cmp.Diff(want, usable); diff != "" {
			t.Errorf("what can be given out (-want +got):\n%s", diff)
		}
		mustRead(t, source, "GPU-0")
	}
	expect("GPU-0")
	node.divide(0)
	expectOutdated(t, source, "GPU-0")
	expect()
	node.divide(0, small)
	expectOutdated(t, source, "GPU-0")
	expect("MIG-small")
	node.divide(0, half) // as many as before
	expectOutdated(t, source, "GPU-0")
	expect("MIG-half")
	node.divide(0, half, small)
	expectOutdated(t, source, "GPU-0")
	expect("MIG-half", "MIG-small")
	node.gpu(0).MigMode = nvml.DEVICE_MIG_DISABLE
	expectOutdated(t, source, "GPU-0")
	expect("GPU-0")
}

func TestSlicesThatCannotBeListedForOnceStay(t *testing.T) {
	node := newH100s(t, 1)
	node.divide(0, small)
	source := node.source(t)
	before := mustOpen(t, source)
	listed := node.gpu(0).GetMigDeviceHandleByIndexFunc
	node.gpu(0).GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
	if sample := mustRead(t, source, "GPU-0"); len(sample.Slices) != 0 {
		t.Errorf("measured: %v", sample.Slices)
	}
	if diff := cmp.Diff(before, mustOpen(t, source)); diff != "" {
		t.Errorf("opened again (-want +got):\n%s", diff)
	}
	mustRead(t, source, "GPU-0")
	node.gpu(0).GetMigDeviceHandleByIndexFunc = listed
	expectOutdated(t, source, "GPU-0") // the slices were not listed
	mustOpen(t, source)
	mustRead(t, source, "GPU-0")

	// Nor does a GPU that has lost its slices meanwhile keep them.
	node.gpu(0).GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
	mustOpen(t, source)
	node.divide(0)
	expectOutdated(t, source, "GPU-0")
	if slices := mustOpen(t, source).GPUs[0].Slices; slices != nil {
		t.Errorf("slices %v", slices)
	}
}

func TestALostGPUKeepsItsSlices(t *testing.T) {
	node := newH100s(t, 2)
	node.divide(1, half, small)
	source := node.source(t)
	before := mustOpen(t, source)
	found := node.DeviceGetHandleByIndexFunc
	node.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 1 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return found(index)
	}
	if diff := cmp.Diff(before, mustOpen(t, source)); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	if _, err := source.Read("GPU-1"); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("error %v", err)
	}
}

func TestALibraryThatKnowsNoMIGDevices(t *testing.T) {
	node := newH100s(t, 1)
	node.divide(0, small)
	node.without("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetAttributes")
	node.gpu(0).GetMaxMigDeviceCountFunc, node.gpu(0).GetMigDeviceHandleByIndexFunc = nil, nil
	source := node.source(t)
	if info := mustOpen(t, source).GPUs[0]; !info.MIG || info.Slices != nil {
		t.Errorf("the GPU is %+v", info)
	}
	mustRead(t, source, "GPU-0")
}
