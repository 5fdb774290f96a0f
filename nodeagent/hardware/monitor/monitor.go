// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitor polls a node's GPUs and keeps what it learned: the last
// snapshot, which everything else in the agent reads.
package monitor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
)

// Config says how a Monitor works.
type Config struct {
	Source gpu.Source
	Clock  clock.Clock
	Policy health.Policy
	// BootID identifies the machine's current boot; empty if unknown.
	BootID string
	// Deadline is how long a call about a GPU may take before the GPU counts as
	// hung. Connecting to the driver, or disconnecting, may take as long for each
	// GPU; then all of them count as hung.
	Deadline time.Duration
}

// Monitor polls the GPUs. Poll, CheckDeadline and Watch may run at the same
// time, each of them once.
type Monitor struct {
	config     Config
	calls      *calls
	connection connection
	statistics statistics
	// broken has the error for which the process must end.
	broken   chan error
	snapshot atomic.Pointer[gpu.Snapshot]

	// Poll's own: why the connection is to be renewed, or nil, and when that is
	// worth it.
	stale    error
	renewals renewals

	mu      sync.Mutex // guards what follows
	tracker *health.Tracker
	known   known
	changed chan struct{}
}

// known is what the snapshots are made of, beside the tracker.
type known struct {
	taken   time.Time
	problem error
	since   time.Time // of problem
	found   *found
	values  map[string]gpu.Values
}

// New returns a Monitor that has polled nothing yet.
func New(config Config) *Monitor {
	calls := newCalls(config.Clock)
	m := &Monitor{
		config:     config,
		calls:      calls,
		connection: connection{source: config.Source, clock: config.Clock, calls: calls},
		tracker:    health.NewTracker(config.Policy, config.BootID),
		known:      known{found: &found{}},
		changed:    make(chan struct{}),
		broken:     make(chan error, 1),
	}
	m.snapshot.Store(&gpu.Snapshot{})
	return m
}

// Snapshot returns what is known. It is not changed later.
func (m *Monitor) Snapshot() *gpu.Snapshot { return m.snapshot.Load() }

// Changed returns a channel that is closed when there is a new snapshot. To miss
// none, ask for it before the snapshot.
func (m *Monitor) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Broken has an error, which is gpu.ErrRestart, when nothing helps but another
// process.
func (m *Monitor) Broken() <-chan error { return m.broken }

// Restore takes over the faults, by UUID, that an earlier life of the agent has
// found. GPUs that already have one keep it.
func (m *Monitor) Restore(faults map[string]gpu.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uuid, fault := range faults {
		if m.tracker.Fault(uuid) == nil {
			m.tracker.Restore(uuid, fault, m.config.Clock.Now())
		}
	}
	m.publish()
}

// Poll reads all GPUs once, after it has connected to the driver if need be.
func (m *Monitor) Poll(ctx context.Context) {
	started := m.config.Clock.Now()
	found, err := m.connect(ctx)
	if err != nil {
		m.statistics.failed()
		m.lose(ctx, err)
		return
	}
	results := m.read(found.inventory.GPUs)
	if m.stale = results.stale(); m.stale != nil && m.calls.idle() {
		m.statistics.failed()
		m.judgeRest(ctx, results)
		return
	}
	m.take(ctx, found, results)
	m.statistics.succeeded(m.config.Clock.Since(started))
}

// connect returns what the driver has found. A connection that is to be renewed
// is closed first, unless a call still uses it: then it must do for now.
func (m *Monitor) connect(ctx context.Context) (*found, error) {
	if m.stale != nil && m.calls.idle() {
		klog.FromContext(ctx).Info("The connection to the GPU driver is renewed", "reason", m.stale)
		m.stale = nil
		m.connection.close(ctx)
	}
	return m.connection.open()
}

// lose takes in that there is no driver.
func (m *Monitor) lose(ctx context.Context, problem error) {
	before := m.Snapshot().Problem
	if before == nil || before.Error() != problem.Error() {
		klog.FromContext(ctx).Error(problem, "There are no GPUs to watch; this is tried again")
	}
	m.mu.Lock()
	m.known.lose(problem, m.config.Clock.Now())
	m.publish()
	m.mu.Unlock()
	// A library that has never fitted, as after an upgrade before the boot, would
	// be the same in another process.
	if errors.Is(problem, gpu.ErrRestart) && m.connection.worked {
		select {
		case m.broken <- problem:
		default: // somebody has been told already
		}
	}
}

// lose notes why nothing is known of the GPUs.
func (k *known) lose(problem error, now time.Time) {
	if k.problem == nil {
		k.since = now
	}
	k.problem, k.values = problem, nil
}

// publish publishes a new snapshot. The mutex must be held.
func (m *Monitor) publish() {
	m.snapshot.Store(m.assemble())
	close(m.changed)
	m.changed = make(chan struct{})
}

// assemble makes a snapshot of what is known.
func (m *Monitor) assemble() *gpu.Snapshot {
	known := &m.known
	inventory := &known.found.inventory
	snapshot := &gpu.Snapshot{
		Taken:   known.taken,
		Problem: known.problem,
		Driver:  inventory.Driver,
		NVLinks: inventory.NVLinks,
		Devices: make([]gpu.Device, 0, len(inventory.GPUs)),
	}
	for i, info := range inventory.GPUs {
		device := gpu.Device{
			Info:        info,
			NVLinkGroup: known.found.groups[i],
			Values:      known.values[info.UUID],
			Fault:       m.fault(info.UUID),
		}
		device.XIDs, device.LastXID = m.tracker.XIDs(info.UUID)
		snapshot.Devices = append(snapshot.Devices, device)
	}
	return snapshot
}

// fault returns why a GPU must not be used. One that has no fault of its own
// shares that of the driver.
func (m *Monitor) fault(uuid string) *gpu.Fault {
	if fault := m.tracker.Fault(uuid); fault != nil || m.known.problem == nil {
		return fault
	}
	return &gpu.Fault{Reason: health.ReasonNoDriver, Since: m.known.since}
}
