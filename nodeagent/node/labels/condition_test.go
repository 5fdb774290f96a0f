// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// with returns a GPU with a fault.
func with(index int, fault gpu.Fault) gpu.Device {
	return device(index, func(d *gpu.Device) { d.Fault = &fault })
}

func polled(s *gpu.Snapshot) *gpu.Snapshot {
	s.Taken = time.Unix(1000, 0)
	return s
}

func TestNodeCondition(t *testing.T) {
	t.Parallel()
	noDriver := polled(snapshot(with(0, gpu.Fault{Reason: "NoDriver"}), device(1, nil)))
	noDriver.Problem = gpu.ErrUnavailable
	hung := polled(snapshot(with(0, gpu.Fault{Reason: "Hung"})))
	hung.Problem = gpu.ErrUnavailable
	tests := map[string]struct {
		snapshot *gpu.Snapshot
		want     string // status, reason and message; empty for none
	}{
		"all are healthy":            {polled(snapshot(device(0, nil), device(1, nil))), "True AllHealthy both GPUs are healthy"},
		"there are no GPUs":          {polled(snapshot()), ""},
		"nothing has been found yet": {snapshot(), "Unknown NotPolled the GPUs have not been polled yet"},
		"there is no driver":         {noDriver, "Unknown NoDriver no GPU driver"},
		"the driver hangs":           {hung, "False GPUUnhealthy GPU 0 (a): Hung"},
		"one must be replaced": {
			polled(snapshot(with(0, gpu.Fault{Reason: "XID79", Action: gpu.ActionSystemReboot}), with(1, gpu.Fault{Reason: "RowRemapFailure"}))),
			"False ReplaceGPU GPU 1 (b): RowRemapFailure, the GPU must be replaced, as its memory has no spare rows left; " +
				"GPU 0 (a): XID79, the driver requires a restart of the whole machine",
		},
		"the policy requires a reset": {
			polled(snapshot(device(0, nil), with(1, gpu.Fault{Reason: "XID79", NeedsReset: true}))),
			"False GPUReset GPU 1 (b): XID79, it must be reset before it is used again",
		},
		"one needs a reboot and one is missing": {
			polled(missing(1, device(0, nil), with(1, gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}))),
			"False NodeReboot GPU 1 (b): XID79, the driver requires a reboot of the node; 1 of 3 GPUs is missing",
		},
		"several are missing": {polled(missing(2, device(0, nil))), "False GPUMissing 2 of 3 GPUs are missing"},
		"all are missing":     {polled(missing(8)), "False GPUMissing 8 of 8 GPUs are missing"},
		"the worst come first, and not all are described": {
			polled(snapshot(
				with(0, gpu.Fault{Reason: "Hung"}), with(1, gpu.Fault{Reason: "Lost"}), with(2, gpu.Fault{Reason: "ECC", NeedsReset: true}),
				with(3, gpu.Fault{Reason: "RebootRequired", Action: gpu.ActionNodeReboot}), with(4, gpu.Fault{Reason: "Hung"}),
			)),
			"False NodeReboot GPU 3 (d): RebootRequired, the driver requires a reboot of the node; " +
				"GPU 2 (c): ECC, it must be reset before it is used again; GPU 0 (a): Hung; 2 more unhealthy",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if condition := NodeCondition(test.snapshot); condition != nil {
				got = fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}
