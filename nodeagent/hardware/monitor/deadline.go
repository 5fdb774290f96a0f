// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
)

var errHanging = errors.New("the GPU driver hangs: a call that connects to it or disconnects from it does not return")

// CheckDeadline detects calls that exceed the deadline. Call it at intervals shorter than
// the deadline.
func (m *Monitor) CheckDeadline(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.current.problem
	changed := m.withHealthLogged(ctx, nil, m.markHung)
	if errors.Is(m.current.problem, errHanging) && !errors.Is(before, errHanging) {
		klog.FromContext(ctx).Error(m.current.problem, "Nothing is known of the GPUs until it returns")
		changed = true
	}
	if changed {
		m.publish()
	}
}

// markHung records the calls that exceed the deadline now. The mutex must be held, so that
// no poll changes the result meanwhile.
func (m *Monitor) markHung() {
	now := m.config.Clock.Now()
	gpus := m.current.found.inventory.GPUs
	for key, took := range m.calls.overdue(m.config.Deadline) {
		if key != connecting {
			m.tracker.Hang(key, now)
			continue
		}
		// It queries all GPUs, one after the other, and may have to start each.
		if took < m.config.Deadline*time.Duration(len(gpus)) {
			continue
		}
		m.current.setProblem(errHanging, now)
		for i := range gpus {
			m.tracker.Hang(gpus[i].UUID, now)
		}
	}
}
