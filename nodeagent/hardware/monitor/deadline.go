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

// CheckDeadline notices calls that do not return. It is to be called more often
// than the deadline is long.
func (m *Monitor) CheckDeadline(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.known.problem
	changed := m.withHealthLogged(ctx, nil, m.hang)
	if errors.Is(m.known.problem, errHanging) && !errors.Is(before, errHanging) {
		klog.FromContext(ctx).Error(m.known.problem, "Nothing is known of the GPUs until it returns")
		changed = true
	}
	if changed {
		m.publish()
	}
}

// hang takes in which calls hang now. The mutex is held meanwhile: a poll can't
// have found out more.
func (m *Monitor) hang() {
	now := m.config.Clock.Now()
	gpus := m.known.found.inventory.GPUs
	for about, took := range m.calls.overdue(m.config.Deadline) {
		if about != connecting {
			m.tracker.Hang(about, now)
			continue
		}
		// It asks all GPUs, one after the other, and may have to start each.
		if took < m.config.Deadline*time.Duration(len(gpus)) {
			continue
		}
		m.known.lose(errHanging, now)
		for i := range gpus {
			m.tracker.Hang(gpus[i].UUID, now)
		}
	}
}
