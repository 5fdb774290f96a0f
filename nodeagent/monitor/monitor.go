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

	"falldio.github.io/gpu-controller/nodeagent/gpu"
	"falldio.github.io/gpu-controller/nodeagent/health"
)

// Config says how a Monitor works.
type Config struct {
	Source gpu.Source
	Clock  clock.Clock
	Policy health.Policy
	// BootID identifies the machine's current boot; empty if unknown.
	BootID string
	// Deadline is how long a call about a GPU may take before the GPU counts as
	// hung.
	Deadline time.Duration
}

// Monitor polls the GPUs. Poll, CheckDeadline and Watch may run at the same
// time, each of them once.
type Monitor struct {
	config     Config
	connection connection
	statistics statistics
	// broken has the error for which the process must end.
	broken chan error
	// calling is the call about a GPU that is under way, or nil.
	calling  atomic.Pointer[call]
	snapshot atomic.Pointer[gpu.Snapshot]

	mu      sync.Mutex // guards what follows
	tracker *health.Tracker
	known   known
	changed chan struct{}
}

// call is a call of the Source about a GPU.
type call struct {
	uuid  string
	since time.Time
}

// known is what the snapshots are made of.
type known struct {
	taken     time.Time
	problem   error
	since     time.Time // of problem
	inventory gpu.Inventory
	groups    []int
	values    map[string]gpu.Values
}

// renewAfter is how old the connection must be before it is renewed for the sake
// of a GPU that does not answer. NVML never finds a GPU again that it has lost,
// except from the start.
const renewAfter = time.Minute

var errSilent = errors.New("a GPU did not answer: it may have come back")

// New returns a Monitor that has polled nothing yet.
func New(config Config) *Monitor {
	m := &Monitor{
		config:     config,
		connection: connection{source: config.Source, clock: config.Clock},
		tracker:    health.NewTracker(config.Policy, config.BootID),
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

// Restore takes over the faults, by UUID, that an earlier life of the agent has
// found. GPUs that already have one keep it.
func (m *Monitor) Restore(faults map[string]gpu.Fault) {
	m.update(func(*known) {
		for uuid, fault := range faults {
			if m.tracker.Fault(uuid) == nil {
				m.tracker.Restore(uuid, fault, m.config.Clock.Now())
			}
		}
	})
}

// Broken has an error, which is gpu.ErrRestart, when nothing helps but another
// process.
func (m *Monitor) Broken() <-chan error { return m.broken }

// Poll reads all GPUs once, after it has connected to the driver if need be.
func (m *Monitor) Poll(ctx context.Context) {
	started := m.config.Clock.Now()
	inventory, fresh, err := m.connection.open()
	if err != nil {
		m.statistics.failed()
		m.lose(ctx, err)
		return
	}
	if fresh {
		m.find(ctx, inventory)
	}
	values, stale := m.read(ctx, inventory.GPUs)
	if stale == nil && len(values) < len(inventory.GPUs) && m.connection.age() >= renewAfter {
		stale = errSilent
	}
	if stale != nil {
		m.statistics.failed()
		klog.FromContext(ctx).Info("The connection to the GPU driver is renewed", "reason", stale)
		m.connection.close(ctx)
		return
	}
	m.update(func(known *known) { known.taken, known.values = m.config.Clock.Now(), values })
	m.statistics.succeeded(m.config.Clock.Since(started))
}

// Close disconnects from the driver.
func (m *Monitor) Close(ctx context.Context) { m.connection.close(ctx) }

// lose takes in that there is no driver.
func (m *Monitor) lose(ctx context.Context, problem error) {
	if errors.Is(problem, gpu.ErrRestart) {
		select {
		case m.broken <- problem:
		default: // somebody has been told already
		}
	}
	before := m.Snapshot().Problem
	if before == nil || before.Error() != problem.Error() {
		klog.FromContext(ctx).Error(problem, "There are no GPUs to watch; this is tried again")
	}
	m.update(func(known *known) {
		if known.problem == nil {
			known.since = m.config.Clock.Now()
		}
		known.problem, known.values = problem, nil
	})
}

// find takes in what GPUs there are.
func (m *Monitor) find(ctx context.Context, inventory gpu.Inventory) {
	klog.FromContext(ctx).Info("Found GPUs", "count", len(inventory.GPUs), "driver", inventory.Driver.Version, "cuda", inventory.Driver.CUDA)
	m.update(func(known *known) {
		known.problem, known.inventory, known.groups = nil, inventory, inventory.NVLinkGroups()
		for _, info := range inventory.GPUs {
			m.tracker.Known(info.UUID)
		}
	})
}

// update changes what is known and publishes a new snapshot.
func (m *Monitor) update(change func(*known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.known)
	m.snapshot.Store(m.assemble())
	close(m.changed)
	m.changed = make(chan struct{})
}

// assemble makes a snapshot of what is known.
func (m *Monitor) assemble() *gpu.Snapshot {
	known := &m.known
	snapshot := &gpu.Snapshot{
		Taken:   known.taken,
		Problem: known.problem,
		Driver:  known.inventory.Driver,
		NVLinks: known.inventory.NVLinks,
		Devices: make([]gpu.Device, 0, len(known.inventory.GPUs)),
	}
	for i, info := range known.inventory.GPUs {
		device := gpu.Device{
			Info:        info,
			NVLinkGroup: known.groups[i],
			Values:      known.values[info.UUID],
			Fault:       m.fault(info.UUID),
		}
		device.XIDs, device.LastXID = m.tracker.XIDs(info.UUID)
		snapshot.Devices = append(snapshot.Devices, device)
	}
	return snapshot
}

// reasonNoDriver is why GPUs that were there are unhealthy while there is no
// driver.
const reasonNoDriver = "NoDriver"

func (m *Monitor) fault(uuid string) *gpu.Fault {
	if fault := m.tracker.Fault(uuid); fault != nil || m.known.problem == nil {
		return fault
	}
	return &gpu.Fault{Reason: reasonNoDriver, Since: m.known.since}
}
