// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// end is where a link ends: at the GPU with an index, or elsewhere.
type end int

const (
	toSwitch end = -1 - iota
	toCPU
	toHiddenSwitch
	toForeignGPU
	inactive
)

// wire gives a GPU links; it has no others.
func (n *node) wire(index int, ends ...end) {
	d := n.gpu(index)
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		switch {
		case link >= len(ends):
			return 0, nvml.ERROR_INVALID_ARGUMENT
		case ends[link] == inactive:
			return nvml.FEATURE_DISABLED, nvml.SUCCESS
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
		switch ends[link] {
		case toSwitch, toCPU, toForeignGPU:
			return nvml.PciInfo{Bus: 0xC0}, nvml.SUCCESS
		case toHiddenSwitch:
			return nvml.PciInfo{}, nvml.ERROR_NOT_SUPPORTED
		default:
			return pciOf(int(ends[link])), nvml.SUCCESS
		}
	}
	d.GetNvLinkRemoteDeviceTypeFunc = func(link int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		switch ends[link] {
		case toSwitch:
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		case toCPU:
			return nvml.NVLINK_DEVICE_TYPE_IBMNPU, nvml.SUCCESS
		case toHiddenSwitch:
			return nvml.NVLINK_DEVICE_TYPE_UNKNOWN, nvml.SUCCESS
		default:
			return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
		}
	}
}

func TestNVLinks(t *testing.T) {
	tests := []struct {
		name  string
		wires [][]end
		want  [][]int
	}{
		{name: "no NVLink", wires: [][]end{nil, nil}},
		{name: "a bridged pair beside a single GPU", wires: [][]end{{2, 2, 2, 2}, nil, {0, 0, 0, 0}},
			want: [][]int{{0, 0, 4}, {0, 0, 0}, {4, 0, 0}}},
		{name: "a ring", wires: [][]end{{1, 3}, {0, 2}, {1, 3}, {2, 0}},
			want: [][]int{{0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}}},
		{name: "a switch counts what both have", wires: [][]end{{toSwitch, toSwitch, toSwitch}, {toSwitch, inactive, toSwitch}, {toSwitch, toSwitch, toSwitch}},
			want: [][]int{{0, 2, 3}, {2, 0, 2}, {3, 2, 0}}},
		{name: "a switch that a virtual machine hides", wires: [][]end{{toHiddenSwitch}, {toHiddenSwitch}},
			want: [][]int{{0, 1}, {1, 0}}},
		{name: "links to a CPU and to GPUs of others don't count", wires: [][]end{{toCPU, 1}, {toCPU, 0, toForeignGPU}},
			want: [][]int{{0, 1}, {1, 0}}},
		{name: "only links to others", wires: [][]end{{toCPU}, {toForeignGPU}}},
		{name: "inactive links", wires: [][]end{{inactive}, {inactive}}},
		{name: "one end of a direct link does not answer", wires: [][]end{{1, 1}, nil}, want: [][]int{{0, 2}, {2, 0}}},
		{name: "a single GPU on a switch", wires: [][]end{{toSwitch}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, len(test.wires))
			for index, ends := range test.wires {
				node.wire(index, ends...)
			}
			if diff := cmp.Diff(test.want, mustOpen(t, node.source(t)).NVLinks); diff != "" {
				t.Errorf("unexpected matrix (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNVLinksOfALibraryThatDoesNotTellRemoteTypes(t *testing.T) {
	node := newA100s(t, 3)
	node.wire(0, toSwitch, toSwitch)
	node.wire(1, toSwitch, toSwitch)
	node.wire(2)
	node.without("nvmlDeviceGetNvLinkRemoteDeviceType")
	for index := range 3 {
		node.gpu(index).GetNvLinkRemoteDeviceTypeFunc = nil
	}
	want := [][]int{{0, 2, 0}, {2, 0, 0}, {0, 0, 0}}
	if diff := cmp.Diff(want, mustOpen(t, node.source(t)).NVLinks); diff != "" {
		t.Errorf("unexpected matrix (-want +got):\n%s", diff)
	}
}

func TestNVLinksOfALostGPUAreThoseThatItsPeersSee(t *testing.T) {
	node := newH100s(t, 2)
	node.wire(0, 1, 1)
	node.wire(1, 0, 0)
	source := node.source(t)
	before := mustOpen(t, source)
	found := node.DeviceGetHandleByIndexFunc
	node.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 1 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return found(index)
	}
	after := mustOpen(t, source)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("unexpected inventory (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 0}, after.NVLinkGroups()); diff != "" {
		t.Errorf("unexpected groups (-want +got):\n%s", diff)
	}
}
