// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func TestOnlyThePresentActionIsExported(t *testing.T) {
	t.Parallel()
	node := newNode("n1",
		device(0), // the driver does not report it
		device(1, func(d *gpu.Device) { d.Action = gpu.ActionNone }),
		device(2, func(d *gpu.Device) { d.Action = gpu.ActionNodeReboot }),
		// The poll failed, but nothing has been done about it.
		device(3, func(d *gpu.Device) { d.Fault = &gpu.Fault{Reason: "XID79", Action: gpu.ActionGPUReset} }),
		device(4, func(d *gpu.Device) { d.Action = gpu.NumberedAction(8) }),
	)
	var got []string
	for _, line := range scrape(t, collectorOf(false, node), "falldio_gpu_recovery_action") {
		got = append(got, label(line, "gpu")+" "+label(line, "action")+line[len(line)-2:])
	}
	slices.Sort(got)
	want := []string{
		`gpu="1" action="None" 1`, `gpu="2" action="NodeReboot" 1`, `gpu="3" action="GPUReset" 1`, `gpu="4" action="Unknown8" 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestMissingGPUsAreAMetric(t *testing.T) {
	t.Parallel()
	const name = "falldio_gpus_missing"
	node := newNode("n1", device(0))
	snapshot := &node.GPUs.(*fakeGPUs).snapshot
	snapshot.Missing = 7
	if diff := cmp.Diff([]string{name + `{hostname="n1"} 7`}, scrape(t, collectorOf(false, node), name)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	snapshot.Problem = gpu.ErrUnavailable
	if got := scrape(t, collectorOf(false, node), name); len(got) != 0 {
		t.Errorf("without a driver it is not known, got %v", got)
	}
}
