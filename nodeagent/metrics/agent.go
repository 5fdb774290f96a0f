// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// agentDescriptions are the descriptors of the metrics about the agent itself.
type agentDescriptions struct {
	up, age, hanging, missing          *prometheus.Desc
	polls, duration, readErrors        *prometheus.Desc
	processErrors                      *prometheus.Desc
	writes                             *prometheus.Desc
	registered, registrations, granted *prometheus.Desc
	mps                                *prometheus.Desc
}

func newAgentDescriptions() *agentDescriptions {
	node := []string{"hostname"}
	return &agentDescriptions{
		up:            describe("nodeagent_driver_up", "1 if there is a GPU driver that answers, 0 if not.", node),
		age:           describe("nodeagent_snapshot_age_seconds", "Time since all GPUs were polled the last time.", node),
		hanging:       describe("nodeagent_call_hanging_seconds", "How long the oldest call of the driver has been hanging that has missed its deadline; 0 if none has.", node),
		missing:       describe("falldio_gpus_missing", "GPUs that are on the PCI bus, or expected, and that the driver does not report.", node),
		polls:         describe("nodeagent_polls_total", "Polls of all GPUs, by result (success, error).", []string{"hostname", "result"}),
		duration:      describe("nodeagent_poll_duration_seconds", "Time that polls of all GPUs took.", node),
		readErrors:    describe("nodeagent_read_errors_total", "Polls of a single GPU that failed.", node),
		processErrors: describe("nodeagent_process_read_errors_total", "Failed attempts to read the processes on a GPU.", node),
		writes:        describe("nodeagent_label_writes_total", "Writes of the Node's labels and annotation, by result (success, error).", []string{"hostname", "result"}),
		registered:    describe("nodeagent_device_plugin_registered", "1 while the kubelet talks to the device plugin of the resource.", []string{"hostname", "resource"}),
		registrations: describe("nodeagent_device_plugin_registrations_total",
			"How often the device plugin has registered with the kubelet.", []string{"hostname", "resource"}),
		granted: describe("nodeagent_device_plugin_allocations_total", "Containers that got devices.", []string{"hostname", "resource"}),
		mps:     describe("nodeagent_mps_daemon_up", "1 if the control daemon of NVIDIA's Multi-Process Service runs, 0 if it should.", node),
	}
}

func (a *agentDescriptions) collect(into chan<- prometheus.Metric, node *Node, snapshot *gpu.Snapshot, now time.Time) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		into <- constant(desc, prometheus.GaugeValue, value, append([]string{node.Name}, labels...)...)
	}
	counter := func(desc *prometheus.Desc, value float64, labels ...string) {
		into <- constant(desc, prometheus.CounterValue, value, append([]string{node.Name}, labels...)...)
	}
	statistics := node.GPUs.Statistics()
	gauge(a.up, boolToFloat(snapshot.Problem == nil && !snapshot.Taken.IsZero()))
	if !snapshot.Taken.IsZero() {
		gauge(a.age, now.Sub(snapshot.Taken).Seconds())
	}
	gauge(a.hanging, statistics.Hanging.Seconds())
	if !snapshot.Taken.IsZero() && snapshot.Problem == nil {
		gauge(a.missing, float64(snapshot.Missing))
	}
	counter(a.polls, float64(statistics.Polls), "success")
	counter(a.polls, float64(statistics.FailedPolls), "error")
	counter(a.readErrors, float64(statistics.FailedReads))
	counter(a.processErrors, float64(statistics.FailedProcesses))
	if summary, err := prometheus.NewConstSummary(a.duration, statistics.Polls, statistics.TotalDuration.Seconds(), nil, node.Name); err == nil {
		into <- summary
	}
	if node.Writes != nil {
		worked, failed := node.Writes()
		counter(a.writes, float64(worked), "success")
		counter(a.writes, float64(failed), "error")
	}
	if node.Shares != nil {
		if up, configured := node.Shares.DaemonUp(); configured {
			gauge(a.mps, boolToFloat(up))
		}
	}
	if node.Plugins != nil {
		for resource, status := range node.Plugins() {
			gauge(a.registered, boolToFloat(status.Registered), resource)
			counter(a.registrations, float64(status.Registrations), resource)
			counter(a.granted, float64(status.Allocations), resource)
		}
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
