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

// result is what reading a GPU has led to.
type result struct {
	uuid   string
	sample gpu.Sample
	err    error
}

// results are by UUID. A GPU whose call has not returned has none.
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

// read reads all GPUs at the same time and waits for them, but not longer than
// the deadline. A GPU whose last call has not returned is not asked again.
func (m *Monitor) read(gpus []gpu.Info) results {
	answers := make(chan result, len(gpus))
	asked := make([]string, 0, len(gpus))
	for i := range gpus {
		if uuid := gpus[i].UUID; m.calls.begin(uuid) {
			asked = append(asked, uuid)
			go func() { answers <- m.readOne(uuid) }()
		}
	}
	timer := m.config.Clock.NewTimer(m.config.Deadline)
	defer timer.Stop()
	results := make(results, len(asked))
	for late := false; len(results) < len(asked); {
		if late && m.calls.under(asked) == len(asked)-len(results) {
			break // none has returned whose answer is not here yet
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

// readOne reads a GPU whose call has been noted. A panic is the failure of this
// GPU, as it is that of a job elsewhere: it does not end the process.
func (m *Monitor) readOne(uuid string) (answer result) {
	defer m.calls.end(uuid)
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = result{uuid: uuid, err: fmt.Errorf("reading panicked: %v", panicked)}
		}
	}()
	sample, err := m.config.Source.Read(uuid)
	return result{uuid, sample, err}
}

// take takes in what a poll has found, all at once: GPUs are not shown before
// they were read.
func (m *Monitor) take(ctx context.Context, found *found, results results) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known.found != found {
		klog.FromContext(ctx).Info("Found GPUs", "count", len(found.inventory.GPUs),
			"driver", found.inventory.Driver.Version, "cuda", found.inventory.Driver.CUDA)
	}
	m.known.found, m.known.problem, m.known.taken = found, nil, m.config.Clock.Now()
	m.known.values = make(map[string]gpu.Values, len(results))
	silent := 0
	m.withHealthLogged(ctx, results, func() {
		for i := range found.inventory.GPUs {
			uuid := found.inventory.GPUs[i].UUID
			m.tracker.Known(uuid)
			if result, answered := results[uuid]; answered {
				m.judge(&result)
				m.known.values[uuid] = result.sample.Values // nil after a failure
			}
			if m.tracker.Silent(uuid) {
				silent++
			}
		}
		m.hang()
	})
	if m.calls.idle() && m.renewals.due(silent, m.connection.age()) {
		m.stale = errSilent
	}
	m.publish()
}

// judge takes in what a poll says of a GPU.
func (m *Monitor) judge(result *result) {
	if result.err != nil {
		m.statistics.readFailed()
		m.tracker.Fail(result.uuid, result.err, m.config.Clock.Now())
		return
	}
	m.tracker.Observe(result.sample, m.config.Clock.Now())
}

// judgeRest takes in the health of the GPUs that answered a poll that others did
// not, because the connection is to be renewed. Of these it says nothing.
func (m *Monitor) judgeRest(ctx context.Context, results results) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.withHealthLogged(ctx, results, func() {
		for _, result := range results {
			if !errors.Is(result.err, gpu.ErrStale) {
				m.judge(&result)
			}
		}
	})
	if changed {
		m.publish()
	}
}
