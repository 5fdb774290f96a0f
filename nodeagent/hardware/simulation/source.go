// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// Source simulates the GPUs of one node.
type Source struct {
	profile *Profile
	node    string
	clock   clock.Clock
	events  chan gpu.Event
	proc    fs.FS // nil unless processes are to be found
	// held reports whether a GPU is used by somebody; nil if all are.
	held func(uuid string) bool

	mu     sync.Mutex
	gpus   []*simulated
	byUUID map[string]*simulated
	// opened is closed by Close; nil while the Source is closed.
	opened chan struct{}
	// stale is true if GPUs have been added or removed since Open.
	stale bool
}

var _ gpu.Source = (*Source)(nil)

// eventsKept is how many events are buffered for Watch.
const eventsKept = 256

// uptime is how long before the simulation's start GPUs were last reset. Without it, the
// energy counter would not visibly drop if a GPU were reset right at the start.
const uptime = 24 * time.Hour

// New returns the GPUs of a node. The profile must be complete.
func New(profile *Profile, node string, c clock.Clock) *Source {
	s := &Source{profile: profile, node: node, clock: c, events: make(chan gpu.Event, eventsKept), byUUID: map[string]*simulated{}}
	for index := range *profile.Count {
		one := &simulated{info: profile.info(node, index), reset: c.Now().Add(-uptime), hasFabric: profile.hasFabric()}
		one.changing = initial(&one.info)
		s.gpus = append(s.gpus, one)
		s.byUUID[one.info.UUID] = one
	}
	return s
}

// BusyWhile has only those GPUs busy for which held returns true. It is to be called before the Source is read.
func (s *Source) BusyWhile(held func(uuid string) bool) { s.held = held }

// Open finds the GPUs that are not removed.
func (s *Source) Open() (gpu.Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = make(chan struct{})
	}
	s.stale = false
	inventory := gpu.Inventory{Driver: gpu.Driver{Version: s.profile.Driver, CUDA: s.profile.CUDA}}
	var indexes []int
	for index, one := range s.gpus {
		if !one.removed {
			one.opened = one.changing
			inventory.GPUs = append(inventory.GPUs, one.found())
			indexes = append(indexes, index)
		}
	}
	inventory.NVLinks = s.profile.matrix(indexes, func(index int) bool { return !s.gpus[index].fabricPending })
	return inventory, nil
}

// Read returns the GPU's current measurements, after the delay of its faults.
func (s *Source) Read(uuid string) (gpu.Sample, error) {
	if err := s.applyDelay(uuid); err != nil {
		return gpu.Sample{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byUUID[uuid]
	if one.lost {
		return gpu.Sample{}, fmt.Errorf("simulated GPU %d: %w", one.info.Index, gpu.ErrLost)
	}
	sample := gpu.Sample{
		UUID:   uuid,
		Values: s.profile.values(&one.info, s.clock.Now(), one.reset, one.eccUncorrected),
	}
	if s.held != nil && !s.held(uuid) {
		s.profile.idle(sample.Values)
	}
	one.addTo(&sample)
	if one.mig {
		s.profile.divide(&sample, one.slices, s.clock.Now())
	}
	if !one.same(&one.opened) {
		return sample, fmt.Errorf("simulated GPU %d has changed: %w", one.info.Index, gpu.ErrStale)
	}
	return sample, nil
}

// applyDelay waits as long as the GPU's faults require.
func (s *Source) applyDelay(uuid string) error {
	s.mu.Lock()
	one, closed, stale := s.byUUID[uuid], s.opened, s.stale
	if one == nil || one.removed || closed == nil || stale {
		s.mu.Unlock()
		return fmt.Errorf("simulated GPU %s: %w", uuid, gpu.ErrStale)
	}
	hung, delay := one.hung, one.delay
	s.mu.Unlock()
	if delay > 0 {
		<-s.clock.After(delay)
	}
	if hung == nil {
		return nil
	}
	select {
	case <-hung:
		return nil
	case <-closed:
		return fmt.Errorf("simulated GPU %s: %w", uuid, gpu.ErrStale)
	}
}

// Watch reports the injected XIDs.
func (s *Source) Watch(ctx context.Context, report func(gpu.Event)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-s.events:
			report(event)
		}
	}
}

// Close makes hanging calls return.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		close(s.opened)
		s.opened = nil
	}
	return nil
}

// Inject injects a fault. An error names the invalid field.
func (s *Source) Inject(fault Fault) error {
	if err := fault.validate(len(s.gpus)); err != nil {
		return err
	}
	if err := migprofile.Fit(fault.Slices, s.profile.Memory.Value()); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.gpus {
		if fault.GPU == nil || *fault.GPU == one.info.Index {
			if err := s.apply(one, fault); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Source) apply(one *simulated, fault Fault) error {
	switch fault.Fault {
	case XID:
		select {
		case s.events <- gpu.Event{UUID: one.info.UUID, XID: fault.XID}:
		default:
			return fmt.Errorf("%d events are pending already: there is no watcher", eventsKept)
		}
	case Removed:
		s.stale = s.stale || !one.removed
		one.removed = true
	case MIG:
		one.mig, one.slices = true, s.profile.slices(s.node, one.info.Index, fault.Slices)
	case Recovered:
		s.stale = s.stale || one.removed
		one.recover(s.clock.Now())
	default:
		one.apply(fault)
	}
	return nil
}
