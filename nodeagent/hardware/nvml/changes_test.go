// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// expectOutdated reads a GPU that answers, but is no longer as the inventory has it.
func expectOutdated(t *testing.T, source *Source, uuid string) {
	t.Helper()
	sample, err := source.Read(uuid)
	if !errors.Is(err, gpu.ErrStale) || sample.UUID != uuid || sample.Values[gpu.Temperature] != 60 {
		t.Errorf("got error %v, sample %v; want a sample and gpu.ErrStale", err, sample)
	}
}

func TestFabricStates(t *testing.T) {
	tests := []struct {
		name   string
		state  int
		status nvml.Return
		want   gpu.Fabric
	}{
		{name: "not supported", state: nvml.GPU_FABRIC_STATE_NOT_SUPPORTED, want: gpu.FabricUnknown},
		{name: "not started", state: nvml.GPU_FABRIC_STATE_NOT_STARTED, want: gpu.FabricNotReady},
		{name: "in progress, when the status has no meaning", state: nvml.GPU_FABRIC_STATE_IN_PROGRESS, status: nvml.ERROR_UNKNOWN, want: gpu.FabricNotReady},
		{name: "completed", state: nvml.GPU_FABRIC_STATE_COMPLETED, want: gpu.FabricJoined},
		{name: "completed with an error", state: nvml.GPU_FABRIC_STATE_COMPLETED, status: nvml.ERROR_UNKNOWN, want: gpu.FabricFailed},
		{name: "a state that NVML will add", state: 9, want: gpu.FabricUnknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 1)
			node.joinFabric(0, test.state, test.status)
			source := node.source(t)
			mustOpen(t, source)
			sample := mustRead(t, source, "GPU-0")
			if sample.Fabric != test.want {
				t.Errorf("got %d, want %d", sample.Fabric, test.want)
			}
			ready, known := sample.Values[gpu.FabricReady]
			if known != (test.want != gpu.FabricUnknown) || (ready == 1) != (test.want == gpu.FabricJoined) {
				t.Errorf("the fabric is ready: %v, known: %v", ready, known)
			}
		})
	}
}

// An agent may start before Fabric Manager does.
func TestTheGroupsAreThoseAfterFabricManager(t *testing.T) {
	node := newH100s(t, 2)
	for index := range 2 {
		node.wire(index, inactive, inactive)
		node.joinFabric(index, nvml.GPU_FABRIC_STATE_NOT_STARTED, nvml.SUCCESS)
	}
	source := node.source(t)
	inventory := mustOpen(t, source)
	if diff := cmp.Diff([]int{gpu.Unknown, gpu.Unknown}, inventory.NVLinkGroups()); diff != "" {
		t.Errorf("unexpected groups before (-want +got):\n%s", diff)
	}
	for index := range 2 {
		node.joinFabric(index, nvml.GPU_FABRIC_STATE_IN_PROGRESS, nvml.SUCCESS)
		mustRead(t, source, uuidOf(index)) // that it has begun changes nothing
	}
	for index := range 2 {
		node.wire(index, toSwitch, toSwitch)
		node.joinFabric(index, nvml.GPU_FABRIC_STATE_COMPLETED, nvml.SUCCESS)
		expectOutdated(t, source, uuidOf(index))
		expectOutdated(t, source, uuidOf(index)) // until it is opened again
	}
	inventory = mustOpen(t, source)
	if diff := cmp.Diff([]int{0, 0}, inventory.NVLinkGroups()); diff != "" {
		t.Errorf("unexpected groups afterwards (-want +got):\n%s", diff)
	}
	mustRead(t, source, "GPU-0")
}

func TestAFabricThatCannotBeReadForOnceHasNotChanged(t *testing.T) {
	node := newH100s(t, 1)
	node.joinFabric(0, nvml.GPU_FABRIC_STATE_COMPLETED, nvml.SUCCESS)
	source := node.source(t)
	mustOpen(t, source)
	node.gpu(0).GetGpuFabricInfo_v4Func = func() (nvml.GpuFabricInfo_v4, nvml.Return) {
		return nvml.GpuFabricInfo_v4{}, nvml.ERROR_TIMEOUT
	}
	mustRead(t, source, "GPU-0")
}

func TestLinksThatComeUpLaterAreFoundWithinAMinute(t *testing.T) {
	node := newH100s(t, 2)
	node.wire(0, inactive, 1)
	node.wire(1, inactive, 0)
	source := node.source(t)
	mustOpen(t, source)
	if links := mustRead(t, source, "GPU-0").Values[gpu.NVLinks]; links != 1 {
		t.Errorf("there are %v active links, want 1", links)
	}
	node.wire(0, 1, 1)
	node.clock.Step(linkInterval - 1)
	mustRead(t, source, "GPU-0") // not yet: a call for each link is dear
	node.clock.Step(1)
	expectOutdated(t, source, "GPU-0")
	if links := mustOpen(t, source).NVLinks; links[0][1] != 2 {
		t.Errorf("the links are %v, want 2", links)
	}
}

func TestLinksAreNotCountedWhereThereAreNone(t *testing.T) {
	node := newH100s(t, 1)
	node.gpu(0).GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) {
		node.called("link")
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	source := node.source(t)
	mustOpen(t, source)
	mustRead(t, source, "GPU-0")
	before := node.count("link")
	node.clock.Step(2 * linkInterval)
	if value, counted := mustRead(t, source, "GPU-0").Values[gpu.NVLinks]; counted || node.count("link") != before {
		t.Errorf("got %v links, with %d further calls", value, node.count("link")-before)
	}
}

func TestMIGModeIsNoticed(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(1).MigMode = nvml.DEVICE_MIG_ENABLE
	source := node.source(t)
	inventory := mustOpen(t, source)
	if inventory.GPUs[0].MIG || !inventory.GPUs[1].MIG {
		t.Errorf("unexpected GPUs %+v", inventory.GPUs)
	}
	mustRead(t, source, "GPU-1")
	node.gpu(0).MigMode = nvml.DEVICE_MIG_ENABLE
	node.gpu(1).MigMode = nvml.DEVICE_MIG_DISABLE
	expectOutdated(t, source, "GPU-0")
	expectOutdated(t, source, "GPU-1")
	inventory = mustOpen(t, source)
	if !inventory.GPUs[0].MIG || inventory.GPUs[1].MIG {
		t.Errorf("unexpected GPUs after the change %+v", inventory.GPUs)
	}
}

func TestAGPUWithoutMIGIsNotAskedForItsMode(t *testing.T) {
	node := newA100s(t, 1)
	node.gpu(0).GetMigModeFunc = func() (int, int, nvml.Return) {
		node.called("mig")
		return 1, 1, nvml.ERROR_NOT_SUPPORTED
	}
	source := node.source(t)
	if mustOpen(t, source).GPUs[0].MIG {
		t.Error("a mode that is not supported is enabled")
	}
	for range 3 {
		mustRead(t, source, "GPU-0")
	}
	if got := node.count("mig"); got != 2 { // by Open and by Read
		t.Errorf("it was asked %d times", got)
	}
}
