// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	// reportEvery is how often the health is reported if it does not change, and reportValid
	// how long a report counts: a driver that hangs makes the health unknown.
	reportEvery = 20 * time.Second
	reportValid = time.Minute
)

// WatchHealthStatus implements kubeletplugin.DRAPlugin: the kubelet writes the health of a Pod's
// GPUs into its status, as allocatedResourcesStatus.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	ticker := d.clock.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		changed := d.gpus.Changed()
		select {
		case <-ctx.Done():
			return nil
		case reports <- report(d.node, d.gpus.Snapshot()):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C():
		}
	}
}

// report returns the health of all GPUs.
func report(node string, snapshot *gpu.Snapshot) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	for i := range snapshot.Devices {
		device := &snapshot.Devices[i]
		health := kubeletplugin.DeviceHealth{
			PoolName: node, DeviceName: devices.Name(device.UUID), Health: kubeletplugin.HealthStatusHealthy,
			LastUpdated: snapshot.Taken, HealthCheckTimeout: reportValid,
		}
		if device.Fault != nil {
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, device.Fault.Reason
		}
		report.Devices = append(report.Devices, health)
	}
	return report
}
