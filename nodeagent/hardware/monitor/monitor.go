// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitor polls a node's GPUs and keeps the latest snapshot, which everything else
// in the agent reads.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
)

// Config configures a Monitor.
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
	// Processes reports whether the processes on a GPU are to be read as well; nil for none.
	Processes func(uuid string) bool
	// ExpectedGPUs is how many GPUs the machine should have; 0 if that is not checked.
	ExpectedGPUs int
	// Paused returns why the driver must be left alone for now, or nil. Call Poll when that
	// changes. Nil if it never must.
	Paused func() error
	// Installed reports whether the machine has a driver, and what gives containers access to it.
	// Nil if that is not known.
	Installed func() bool
}

// Monitor polls the GPUs. Poll, CheckDeadline and Watch may run at the same time, the latter two
// each of them once.
type Monitor struct {
	config     Config
	calls      *calls
	connection connection
	statistics statistics
	// broken receives the error for which the process must be restarted.
	broken   chan error
	snapshot atomic.Pointer[gpu.Snapshot]

	// polling guards what only Poll uses: the connection, why it must be renewed, or nil, when to
	// renew it for silent GPUs, and since when a driver is installed that is out of reach.
	polling   sync.Mutex
	stale     error
	renewals  renewals
	reachable reachability

	mu      sync.Mutex // guards what follows
	tracker *health.Tracker
	current state
	changed chan struct{}
}

// state is what snapshots are made of, besides the tracker.
type state struct {
	taken   time.Time
	problem error
	since   time.Time // of problem
	found   *discovery
	// samples are those of the last poll, by UUID.
	samples map[string]gpu.Sample
}

// New returns a Monitor that has not polled yet.
func New(config Config) *Monitor {
	calls := newCalls(config.Clock)
	m := &Monitor{
		config:     config,
		calls:      calls,
		connection: connection{source: config.Source, clock: config.Clock, calls: calls},
		tracker:    health.NewTracker(config.Policy, config.BootID),
		current:    state{found: &discovery{}},
		changed:    make(chan struct{}),
		broken:     make(chan error, 1),
	}
	m.snapshot.Store(&gpu.Snapshot{})
	return m
}

// Snapshot returns the latest snapshot, which is immutable.
func (m *Monitor) Snapshot() *gpu.Snapshot { return m.snapshot.Load() }

// Changed returns a channel that is closed when there is a new snapshot. To miss none, call
// it before Snapshot.
func (m *Monitor) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Broken returns a channel that receives an error, which is gpu.ErrRestart, when the process
// must be restarted.
func (m *Monitor) Broken() <-chan error { return m.broken }

// Restore restores what a previous run of the agent found, by UUID.
func (m *Monitor) Restore(histories map[string]gpu.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uuid, history := range histories {
		m.tracker.Restore(uuid, history, m.config.Clock.Now())
	}
	m.publish()
}

// Poll reads all GPUs once, after connecting to the driver if necessary. While the driver is to be
// left alone, it disconnects instead.
func (m *Monitor) Poll(ctx context.Context) {
	m.polling.Lock()
	defer m.polling.Unlock()
	if reason := m.paused(); reason != nil {
		m.leaveAlone(ctx, reason)
		return
	}
	started := m.config.Clock.Now()
	found, err := m.connect(ctx)
	if err != nil {
		m.statistics.failed()
		m.driverLost(ctx, err)
		return
	}
	m.reachable = reachability{}
	results := m.read(found.inventory.GPUs)
	if m.stale = results.stale(); m.stale != nil && m.calls.idle() {
		m.statistics.failed()
		m.recordHealth(ctx, results)
		return
	}
	m.record(ctx, found, results)
	m.statistics.succeeded(m.config.Clock.Since(started))
}

// connect returns what was found on the connection. A stale one is closed first, unless a
// call still uses it: then it is kept for now.
func (m *Monitor) connect(ctx context.Context) (*discovery, error) {
	if m.stale != nil && m.calls.idle() {
		klog.FromContext(ctx).Info("The connection to the GPU driver is renewed", "reason", m.stale)
		m.stale = nil
		m.connection.close(ctx)
	}
	return m.connection.open()
}

// driverLost records that there is no driver.
func (m *Monitor) driverLost(ctx context.Context, problem error) {
	before := m.Snapshot().Problem
	if before == nil || before.Error() != problem.Error() {
		klog.FromContext(ctx).Error(problem, "No GPUs are available; will retry")
	}
	m.setProblem(problem)
	// A library that has never worked, as after an upgrade before the boot, would not work
	// in another process either.
	if errors.Is(problem, gpu.ErrRestart) && m.connection.connected {
		m.breakDown(problem)
	}
	installed := errors.Is(problem, gpu.ErrInaccessible) && m.config.Installed != nil && m.config.Installed()
	if m.reachable.outOfReach(installed, m.config.Clock.Now()) {
		m.breakDown(fmt.Errorf("%w: the machine has a GPU driver by now, but this container was created without access to it: %w", gpu.ErrRestart, problem))
	}
}

func (m *Monitor) setProblem(problem error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current.setProblem(problem, m.config.Clock.Now())
	m.publish()
}

// breakDown asks for a restart of the process.
func (m *Monitor) breakDown(problem error) {
	select {
	case m.broken <- problem:
	default: // an error is pending already
	}
}

// setProblem sets why nothing is known of the GPUs.
func (s *state) setProblem(problem error, now time.Time) {
	if s.problem == nil {
		s.since = now
	}
	s.problem, s.samples = problem, nil
}

// publish publishes a new snapshot. The mutex must be held.
func (m *Monitor) publish() {
	m.snapshot.Store(m.assemble())
	close(m.changed)
	m.changed = make(chan struct{})
}

// assemble builds a snapshot of the current state.
func (m *Monitor) assemble() *gpu.Snapshot {
	current := &m.current
	inventory := &current.found.inventory
	snapshot := &gpu.Snapshot{
		Taken:   current.taken,
		Problem: current.problem,
		Driver:  inventory.Driver,
		NVLinks: inventory.NVLinks,
		Missing: m.missing(),
		Devices: make([]gpu.Device, 0, len(inventory.GPUs)),
	}
	for i, info := range inventory.GPUs {
		device := gpu.Device{
			Info:        info,
			NVLinkGroup: current.found.groups[i],
			Values:      current.samples[info.UUID].Values,
			SliceValues: current.samples[info.UUID].Slices,
			Processes:   current.samples[info.UUID].Processes,
			Action:      current.samples[info.UUID].Action,
			Fault:       m.fault(info.UUID),
			PastFaults:  m.tracker.PastFaults(info.UUID),
		}
		device.XIDs, device.LastXID = m.tracker.XIDs(info.UUID)
		snapshot.Devices = append(snapshot.Devices, device)
	}
	return snapshot
}

// missing returns how many GPUs were not found. A lost GPU that was found before is not among
// them: it has a fault.
func (m *Monitor) missing() int {
	if m.current.taken.IsZero() || m.current.problem != nil {
		return 0
	}
	inventory := &m.current.found.inventory
	return max(0, max(m.config.ExpectedGPUs, inventory.OnBus)-len(inventory.GPUs))
}

// fault returns why a GPU must not be used, or nil. Without a driver, GPUs that have no fault
// of their own share the driver's.
func (m *Monitor) fault(uuid string) *gpu.Fault {
	if fault := m.tracker.Fault(uuid); fault != nil || m.current.problem == nil {
		return fault
	}
	return &gpu.Fault{Reason: health.ReasonNoDriver, Since: m.current.since}
}
