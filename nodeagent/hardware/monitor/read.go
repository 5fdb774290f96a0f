// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// result is the result of reading a GPU.
type result struct {
	uuid   string
	sample gpu.Sample
	err    error
}

// failed reports whether the GPU was not read.
func (r *result) failed() bool { return r.err != nil && !r.outdated() }

// outdated reports whether the GPU was read, but is no longer as it was found.
func (r *result) outdated() bool { return errors.Is(r.err, gpu.ErrStale) && r.sample.UUID != "" }

// results are results by UUID. A GPU whose call is still in flight has none.
type results map[string]result

// stale returns why nothing can be read until the connection is renewed, or nil.
func (r results) stale() error {
	for _, result := range r {
		if errors.Is(result.err, gpu.ErrStale) {
			return result.err
		}
	}
	return nil
}

// read reads all GPUs in parallel and waits for them, but not longer than the deadline. It
// skips GPUs whose last call is still in flight.
func (m *Monitor) read(gpus []gpu.Info) results {
	answers := make(chan result, len(gpus))
	started := make([]string, 0, len(gpus))
	for i := range gpus {
		if uuid := gpus[i].UUID; m.calls.begin(uuid) {
			started = append(started, uuid)
			go func() { answers <- m.readOne(uuid) }()
		}
	}
	timer := m.config.Clock.NewTimer(m.config.Deadline)
	defer timer.Stop()
	results := make(results, len(started))
	for late := false; len(results) < len(started); {
		if late && m.calls.inFlight(started) == len(started)-len(results) {
			break // all that have returned have been received
		}
		select {
		case answer := <-answers:
			results[answer.uuid] = answer
		case <-timer.C():
			late = true
		}
	}
	return results
}

// readOne reads a GPU whose call has been recorded. A panic counts as a failure of this GPU
// and does not end the process, as in other jobs.
func (m *Monitor) readOne(uuid string) (answer result) {
	defer m.calls.end(uuid)
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = result{uuid: uuid, err: fmt.Errorf("reading panicked: %v", panicked)}
		}
	}()
	sample, err := m.config.Source.Read(uuid)
	if err == nil {
		sample.Processes = m.processesOn(uuid)
	}
	return result{uuid, sample, err}
}

// processesOn reads the processes on a GPU, if that is wanted. If it fails, nothing is known
// of them: it says nothing about the GPU, which has just been read.
func (m *Monitor) processesOn(uuid string) *gpu.ProcessSample {
	source, able := m.config.Source.(gpu.ProcessSource)
	if !able || m.config.Processes == nil || !m.config.Processes(uuid) {
		return nil
	}
	processes, err := source.Processes(uuid)
	if err == nil {
		return processes
	}
	if !errors.Is(err, gpu.ErrUnsupported) {
		m.statistics.processesFailed()
	}
	return nil
}

// record records the results of a poll, all at once: GPUs are not published before they have
// been read.
func (m *Monitor) record(ctx context.Context, found *discovery, results results) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current.found != found {
		klog.FromContext(ctx).Info("Found GPUs", "count", len(found.inventory.GPUs),
			"driver", found.inventory.Driver.Version, "cuda", found.inventory.Driver.CUDA)
	}
	m.current.found, m.current.problem, m.current.taken = found, nil, m.config.Clock.Now()
	m.current.samples = make(map[string]gpu.Sample, len(results))
	silent := 0
	m.withHealthLogged(ctx, results, func() {
		for i := range found.inventory.GPUs {
			uuid := found.inventory.GPUs[i].UUID
			m.tracker.Known(uuid)
			if result, answered := results[uuid]; answered {
				m.recordResult(&result)
				m.current.samples[uuid] = result.sample // empty after a failure
			}
			if m.tracker.Silent(uuid) {
				silent++
			}
		}
		m.markHung()
	})
	if m.calls.idle() && m.renewals.due(silent, m.connection.age()) {
		m.stale = errSilent
	}
	m.publish()
}

// recordResult records the result of polling a GPU.
func (m *Monitor) recordResult(result *result) {
	if result.failed() {
		m.statistics.readFailed()
		m.tracker.Fail(result.uuid, result.err, m.config.Clock.Now())
		return
	}
	m.tracker.Observe(result.sample, m.config.Clock.Now())
}

// recordHealth records only the health of the GPUs that answered a poll after which the
// connection must be renewed. It ignores those that did not because the connection is stale.
func (m *Monitor) recordHealth(ctx context.Context, results results) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.withHealthLogged(ctx, results, func() {
		for _, result := range results {
			if !errors.Is(result.err, gpu.ErrStale) || result.outdated() {
				m.recordResult(&result)
			}
		}
	})
	if changed {
		m.publish()
	}
}
