// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// newMonitor returns what polls the GPUs of a source. paused returns why the driver must be left
// alone; nil if it never must.
func newMonitor(source gpu.Source, opts *options, c clock.Clock, paused func() error) *monitor.Monitor {
	config := monitor.Config{Source: source, Clock: c, Policy: opts.Policy, BootID: monitor.BootID(), Deadline: opts.PollDeadline, Paused: paused}
	if !opts.Simulated() {
		config.Installed = opts.nvidia.Installed
	}
	return monitor.New(config)
}

// poll polls the GPUs until ctx ends. It does not wait for calls in flight: one may hang in the
// driver.
func poll(ctx context.Context, gpus *monitor.Monitor, c clock.WithTicker, interval time.Duration) {
	go gpus.Watch(ctx)
	go every(ctx, c, interval, gpus.Poll)
	every(ctx, c, time.Second, gpus.CheckDeadline)
}

// every calls a function at once and then at intervals, until ctx ends. While the function runs,
// intervals are skipped.
func every(ctx context.Context, c clock.WithTicker, interval time.Duration, do func(context.Context)) {
	ticker := c.NewTicker(interval)
	defer ticker.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// restore takes over the faults that the node agent, which watches the same GPUs, has written to
// the Node: what happened while this driver did not run.
func restore(ctx context.Context, gpus *monitor.Monitor, node *corev1.Node) {
	view := publish.NewView()
	view.See(&node.ObjectMeta)
	histories, err := view.Histories()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Can't restore the GPUs' faults; they will be detected again")
	}
	gpus.Restore(histories)
}
