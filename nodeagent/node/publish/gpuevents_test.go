// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// withFault is a snapshot of one GPU with a fault.
func withFault(fault *gpu.Fault) *gpu.Snapshot {
	return &gpu.Snapshot{Devices: []gpu.Device{{Info: gpu.Info{Index: 3, Product: "H100", UUID: "GPU-a"}, Fault: fault}}}
}

func withMIG(enabled bool) *gpu.Snapshot {
	snapshot := withFault(nil)
	snapshot.Devices[0].MIG = enabled
	return snapshot
}

func withSlices(uuids ...string) *gpu.Snapshot {
	snapshot := withMIG(true)
	for _, uuid := range uuids {
		snapshot.Devices[0].Slices = append(snapshot.Devices[0].Slices, gpu.Slice{UUID: uuid, Profile: "1g.10gb"})
	}
	return snapshot
}

func withMissing(count int) *gpu.Snapshot {
	snapshot := withFault(nil)
	snapshot.Missing = count
	return snapshot
}

func TestEventsSayWhatHasToBeDone(t *testing.T) {
	t.Parallel()
	fault := func(fault gpu.Fault) *gpu.Snapshot { return withFault(&fault) }
	tests := map[string]struct {
		before, after *gpu.Snapshot
		want          string // reason and message; empty for no Event
	}{
		"the driver requires a reboot": {
			withFault(nil), fault(gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}),
			"GPUUnhealthy GPU 3 (H100, GPU-a) is unhealthy: XID79; the driver requires a reboot of the node",
		},
		"it requires one later": {
			fault(gpu.Fault{Reason: "XID79"}), fault(gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}),
			"GPURecoveryAction GPU 3 (H100, GPU-a) is unhealthy: XID79; the driver requires a reboot of the node",
		},
		"a reset and a reboot are different": {
			fault(gpu.Fault{Reason: "ResetRequired", NeedsReset: true, Action: gpu.ActionGPUReset}),
			fault(gpu.Fault{Reason: "RebootRequired", Action: gpu.ActionNodeReboot}),
			"GPURecoveryAction GPU 3 (H100, GPU-a) is unhealthy: RebootRequired; the driver requires a reboot of the node",
		},
		"it no longer requires it": {
			fault(gpu.Fault{Reason: "XID79", Action: gpu.ActionDrainP2P}), fault(gpu.Fault{Reason: "XID79"}),
			"GPURecoveryAction GPU 3 (H100, GPU-a): the driver no longer requires the action DrainP2P",
		},
		"it still requires it": {
			fault(gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}), fault(gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}), "",
		},
		"it has failed too often": {
			fault(gpu.Fault{Reason: "XID94"}), fault(gpu.Fault{Reason: "XID94", NeedsReset: true, Repeated: "3 times in 24h"}),
			"GPUUnhealthy GPU 3 (H100, GPU-a) is unhealthy: XID94; it has failed 3 times in 24h and must be reset before it is used again",
		},
		"it must be replaced after all": {
			fault(gpu.Fault{Reason: "XID64", NeedsReset: true}), fault(gpu.Fault{Reason: "RowRemapFailure", NeedsReset: true}),
			"GPUUnhealthy GPU 3 (H100, GPU-a) is unhealthy: RowRemapFailure; the GPU must be replaced, as its memory has no spare rows left; it must be reset before it is used again",
		},
		"MIG mode":                {withMIG(false), withMIG(true), "GPUMIGMode GPU 3 (H100, GPU-a) is in MIG mode now: it is not allocated as a whole"},
		"no more MIG mode":        {withMIG(true), withMIG(false), "GPUMIGMode GPU 3 (H100, GPU-a) is no longer in MIG mode"},
		"MIG mode from the start": {&gpu.Snapshot{}, withMIG(true), ""},
		"MIG mode and slices at once": {
			withMIG(false), withSlices("MIG-a", "MIG-b"),
			"GPUMIGMode GPU 3 (H100, GPU-a) is in MIG mode now: it is not allocated as a whole\nGPUMIGSlices GPU 3 (H100, GPU-a) is divided into 2 × 1g.10gb now",
		},
		"slices":                   {withMIG(true), withSlices("MIG-a"), "GPUMIGSlices GPU 3 (H100, GPU-a) is divided into 1 × 1g.10gb now"},
		"other slices":             {withSlices("MIG-a"), withSlices("MIG-b"), "GPUMIGSlices GPU 3 (H100, GPU-a) is divided into 1 × 1g.10gb now"},
		"no more slices":           {withSlices("MIG-a"), withMIG(true), "GPUMIGSlices GPU 3 (H100, GPU-a) is divided into no slices now"},
		"the same slices":          {withSlices("MIG-a"), withSlices("MIG-a"), ""},
		"a whole GPU from slices":  {withSlices("MIG-a"), withMIG(false), "GPUMIGMode GPU 3 (H100, GPU-a) is no longer in MIG mode"},
		"slices from the start":    {&gpu.Snapshot{}, withSlices("MIG-a"), ""},
		"a GPU is missing":         {withMissing(0), withMissing(1), "GPUMissing 1 of 2 GPUs are found: the others are on the PCI bus, or expected, but the driver does not report them"},
		"one more is missing":      {withMissing(1), withMissing(2), "GPUMissing 1 of 3 GPUs are found: the others are on the PCI bus, or expected, but the driver does not report them"},
		"missing from the start":   {&gpu.Snapshot{}, withMissing(7), "GPUMissing 1 of 8 GPUs are found: the others are on the PCI bus, or expected, but the driver does not report them"},
		"it is still missing":      {withMissing(1), withMissing(1), ""},
		"it has been found":        {withMissing(1), withMissing(0), "GPUsFound The GPU is found"},
		"there is no driver":       {withMissing(1), &gpu.Snapshot{Problem: gpu.ErrUnavailable, Devices: withFault(nil).Devices}, ""},
		"nothing has changed here": {withFault(nil), withFault(nil), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, event := range events(test.before, test.after, labels.Options{}) {
				got = append(got, event.reason+" "+event.message)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwoAgentsAgreeOnPastFaults(t *testing.T) {
	t.Parallel()
	at := func(seconds ...int64) (times []time.Time) {
		for _, second := range seconds {
			times = append(times, time.Unix(second, 0).UTC())
		}
		return times
	}
	tests := map[string]struct{ ours, theirs, want []time.Time }{
		"what was noticed first stays":           {at(1005, 2000), at(1000, 2003), at(1000, 2000)},
		"a fault that they do not know counts":   {at(1000, 2000), at(1000), at(1000, 2000)},
		"a reset that they do not know does too": {nil, at(1000), nil},
		"other faults are other faults":          {at(2000), at(1000), at(2000)},
		"there were none":                        {nil, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := &inventory.Inventory{GPUs: []inventory.GPU{{UUID: "GPU-a", Health: inventory.Healthy, PastFaults: test.ours}}}
			have, err := inventory.Inventory{GPUs: []inventory.GPU{{UUID: "GPU-a", Health: inventory.Healthy, PastFaults: test.theirs}}}.String()
			if err != nil {
				t.Fatal(err)
			}
			adopt(list, have)
			if diff := cmp.Diff(test.want, list.GPUs[0].PastFaults); diff != "" {
				t.Errorf("past faults (-want +got):\n%s", diff)
			}
		})
	}
}
