// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

func TestAgentShowsItsWork(t *testing.T) {
	t.Parallel()
	full := &Node{
		Name: "n1",
		GPUs: &fakeGPUs{
			snapshot: gpu.Snapshot{Taken: now.Add(-7 * time.Second)},
			statistics: monitor.Statistics{
				Polls: 10, FailedPolls: 2, FailedReads: 3, FailedProcesses: 4, TotalDuration: 2500 * time.Millisecond, Hanging: 12 * time.Second,
			},
		},
		Writes: func() (worked, failed uint64) { return 4, 5 },
		Plugins: func() map[string]deviceplugin.Status {
			return map[string]deviceplugin.Status{"falldio.com/gpu": {Registered: true, Registrations: 2, Allocations: 30}, "falldio.com/rdma": {}}
		},
	}
	tests := map[string]struct {
		node *Node
		want []string
	}{
		"an agent with everything": {full, []string{
			`falldio_gpus_missing{hostname="n1"} 0`,
			`nodeagent_call_hanging_seconds{hostname="n1"} 12`,
			`nodeagent_device_plugin_allocations_total{hostname="n1",resource="falldio.com/gpu"} 30`,
			`nodeagent_device_plugin_allocations_total{hostname="n1",resource="falldio.com/rdma"} 0`,
			`nodeagent_device_plugin_registered{hostname="n1",resource="falldio.com/gpu"} 1`,
			`nodeagent_device_plugin_registered{hostname="n1",resource="falldio.com/rdma"} 0`,
			`nodeagent_device_plugin_registrations_total{hostname="n1",resource="falldio.com/gpu"} 2`,
			`nodeagent_device_plugin_registrations_total{hostname="n1",resource="falldio.com/rdma"} 0`,
			`nodeagent_driver_up{hostname="n1"} 1`,
			`nodeagent_label_writes_total{hostname="n1",result="error"} 5`,
			`nodeagent_label_writes_total{hostname="n1",result="success"} 4`,
			`nodeagent_poll_duration_seconds_sum{hostname="n1"} 2.5`,
			`nodeagent_poll_duration_seconds_count{hostname="n1"} 10`,
			`nodeagent_polls_total{hostname="n1",result="error"} 2`,
			`nodeagent_polls_total{hostname="n1",result="success"} 10`,
			`nodeagent_process_read_errors_total{hostname="n1"} 4`,
			`nodeagent_read_errors_total{hostname="n1"} 3`,
			`nodeagent_snapshot_age_seconds{hostname="n1"} 7`,
		}},
		"an agent that has not polled yet, without plugins and labels": {&Node{Name: "n1", GPUs: &fakeGPUs{}}, []string{
			`nodeagent_call_hanging_seconds{hostname="n1"} 0`,
			`nodeagent_driver_up{hostname="n1"} 0`,
			`nodeagent_poll_duration_seconds_sum{hostname="n1"} 0`,
			`nodeagent_poll_duration_seconds_count{hostname="n1"} 0`,
			`nodeagent_polls_total{hostname="n1",result="error"} 0`,
			`nodeagent_polls_total{hostname="n1",result="success"} 0`,
			`nodeagent_process_read_errors_total{hostname="n1"} 0`,
			`nodeagent_read_errors_total{hostname="n1"} 0`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, scrape(t, collectorOf(true, test.node), "")); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADriverThatIsGoneIsDownAndTheSnapshotAges(t *testing.T) {
	t.Parallel()
	node := &Node{Name: "n1", GPUs: &fakeGPUs{snapshot: gpu.Snapshot{Taken: now.Add(-time.Hour), Problem: gpu.ErrUnavailable}}}
	want := []string{`nodeagent_driver_up{hostname="n1"} 0`, `nodeagent_snapshot_age_seconds{hostname="n1"} 3600`}
	if diff := cmp.Diff(want, scrape(t, collectorOf(false, node), "nodeagent_driver_up", "nodeagent_snapshot_age")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
