// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func TestRemedy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault gpu.Fault
		want  string
	}{
		"it becomes healthy by itself":      {gpu.Fault{Reason: ReasonHung}, ""},
		"the policy requires a reset":       {gpu.Fault{Reason: "XID79", NeedsReset: true}, "it must be reset before it is used again"},
		"the driver requires a reset":       {gpu.Fault{Reason: "XID79", NeedsReset: true, Action: gpu.ActionGPUReset}, "the driver requires a reset of the GPU"},
		"the driver requires more than one": {gpu.Fault{Reason: "XID79", Action: gpu.ActionNodeReboot}, "the driver requires a reboot of the node"},
		"an action that has no name": {
			gpu.Fault{Reason: ReasonRecoveryRequired, Action: gpu.NumberedAction(8)},
			"the driver requires the recovery action 8, which this agent does not know (see nvml.h)",
		},
		"it has failed too often": {
			gpu.Fault{Reason: "XID94", NeedsReset: true, Repeated: "3 times in 24h"},
			"it has failed 3 times in 24h and must be reset before it is used again",
		},
		"and requires a reboot": {
			gpu.Fault{Reason: "XID94", NeedsReset: true, Repeated: "3 times in 24h", Action: gpu.ActionNodeReboot},
			"the driver requires a reboot of the node; it has failed 3 times in 24h and must be reset before it is used again",
		},
		"it must be replaced": {gpu.Fault{Reason: ReasonRowRemapFailure}, "the GPU must be replaced, as its memory has no spare rows left"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Remedy(&test.fault); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
