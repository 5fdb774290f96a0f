// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// agent adds the metrics about the agent itself.
func (s *sink) agent(node *Node, snapshot *gpu.Snapshot, now time.Time) {
	of := labels{}.with("hostname", node.Name)
	success, failure := of.with("result", "success"), of.with("result", "error")
	statistics := node.GPUs.Statistics()
	s.truth("nodeagent_driver_up", "1 if there is a GPU driver that answers, 0 if not.", snapshot.Answered(), of)
	if !snapshot.Taken.IsZero() {
		s.gauge("nodeagent_snapshot_age_seconds", "Time since all GPUs were polled the last time.",
			now.Sub(snapshot.Taken).Seconds(), of)
	}
	s.gauge("nodeagent_call_hanging_seconds",
		"How long the oldest call of the driver has been hanging that has missed its deadline; 0 if none has.", statistics.Hanging.Seconds(), of)
	if snapshot.Answered() {
		s.gauge("falldio_gpus_missing", "GPUs that are on the PCI bus, or expected, and that the driver does not report.",
			float64(snapshot.Missing), of)
	}
	const polls = "Polls of all GPUs, by result (success, error)."
	s.counter("nodeagent_polls_total", polls, float64(statistics.Polls), success)
	s.counter("nodeagent_polls_total", polls, float64(statistics.FailedPolls), failure)
	s.counter("nodeagent_read_errors_total", "Polls of a single GPU that failed.", float64(statistics.FailedReads), of)
	s.counter("nodeagent_process_read_errors_total", "Failed attempts to read the processes on a GPU.",
		float64(statistics.FailedProcesses), of)
	duration := s.describe("nodeagent_poll_duration_seconds", "Time that polls of all GPUs took.", of)
	if summary, err := prometheus.NewConstSummary(duration, statistics.Polls, statistics.TotalDuration.Seconds(), nil, of.values...); err == nil {
		s.into <- summary
	}
	if node.Writes != nil {
		const writes = "Writes of the Node's labels and annotation, by result (success, error)."
		worked, failed := node.Writes()
		s.counter("nodeagent_label_writes_total", writes, float64(worked), success)
		s.counter("nodeagent_label_writes_total", writes, float64(failed), failure)
	}
	if node.Shares != nil {
		if up, configured := node.Shares.DaemonUp(); configured {
			s.truth("nodeagent_mps_daemon_up", "1 if the control daemon of NVIDIA's Multi-Process Service runs, 0 if it should.",
				up, of)
		}
	}
	if node.Plugins != nil {
		for resource, status := range node.Plugins() {
			plugin := of.with("resource", resource)
			s.truth("nodeagent_device_plugin_registered", "1 while the kubelet talks to the device plugin of the resource.",
				status.Registered, plugin)
			s.counter("nodeagent_device_plugin_registrations_total",
				"How often the device plugin has registered with the kubelet.", float64(status.Registrations), plugin)
			s.counter("nodeagent_device_plugin_allocations_total", "Containers that got devices.",
				float64(status.Allocations), plugin)
		}
	}
}
