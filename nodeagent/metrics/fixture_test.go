// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fakeGPUs stands for the monitor.
type fakeGPUs struct {
	snapshot   gpu.Snapshot
	statistics monitor.Statistics
}

func (f *fakeGPUs) Snapshot() *gpu.Snapshot        { return &f.snapshot }
func (f *fakeGPUs) Statistics() monitor.Statistics { return f.statistics }

type fakeLister struct {
	allocations []podresources.Allocation
	err         error
}

func (f *fakeLister) List(context.Context) ([]podresources.Allocation, error) {
	return f.allocations, f.err
}

// device returns an H100 that measures nothing.
func device(index int, change ...func(*gpu.Device)) gpu.Device {
	d := gpu.Device{
		Info: gpu.Info{
			Index: index, UUID: "GPU-" + string(rune('a'+index)), Product: "NVIDIA H100 80GB HBM3",
			MemoryBytes: 80 << 30, PCIBusID: "00000000:1B:00.0", Minor: index, NUMANode: 1, ComputeCapability: "9.0",
		},
		NVLinkGroup: 0,
	}
	for _, apply := range change {
		apply(&d)
	}
	return d
}

// measuring gives a device one measurement.
func measuring(quantity gpu.Quantity, value float64) func(*gpu.Device) {
	return func(d *gpu.Device) {
		if d.Values == nil {
			d.Values = gpu.Values{}
		}
		d.Values[quantity] = value
	}
}

// newNode returns a node whose GPUs were polled two seconds ago.
func newNode(name string, devices ...gpu.Device) *Node {
	return &Node{Name: name, GPUs: &fakeGPUs{snapshot: gpu.Snapshot{
		Taken: now.Add(-2 * time.Second), Driver: gpu.Driver{Version: "570.124.06", CUDA: "12.8"}, Devices: devices,
	}}}
}

// held makes a node's holders known.
func held(t *testing.T, n *Node, allocations ...podresources.Allocation) *Node {
	t.Helper()
	n.Holders = NewHolders(&fakeLister{allocations: allocations})
	if _, err := n.Holders.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func holds(pod, container string, ids ...string) podresources.Allocation {
	return podresources.Allocation{Namespace: "research", Pod: pod, Container: container, Resource: "falldio.com/gpu", DeviceIDs: ids}
}

func collectorOf(dcgm bool, nodes ...*Node) *Collector {
	return NewCollector(clocktesting.NewFakePassiveClock(now), dcgm, nodes...)
}

func gather(collector prometheus.Collector) ([]*dto.MetricFamily, error) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	return registry.Gather()
}

// scrape returns the lines of a scrape, without comments, whose names begin with
// one of the prefixes.
func scrape(t *testing.T, collector prometheus.Collector, prefixes ...string) []string {
	t.Helper()
	families, err := gather(collector)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		begins := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		if !strings.HasPrefix(line, "#") && slices.ContainsFunc(prefixes, begins) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// allQuantities has a value for every quantity.
func allQuantities() gpu.Values {
	values := gpu.Values{}
	for quantity := range gpu.Processes + 1 {
		values[quantity] = 0.5
	}
	return values
}
