// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/gpu"
)

// read reads all GPUs. An error says that none of them can be read until the
// connection to the driver is renewed.
func (m *Monitor) read(ctx context.Context, gpus []gpu.Info) (map[string]gpu.Values, error) {
	values := make(map[string]gpu.Values, len(gpus))
	for i := range gpus {
		sample, err := m.readOne(gpus[i].UUID)
		if errors.Is(err, gpu.ErrStale) {
			return nil, err
		}
		m.judge(ctx, &gpus[i], sample, err)
		if err == nil {
			values[gpus[i].UUID] = sample.Values
		}
	}
	return values, nil
}

func (m *Monitor) readOne(uuid string) (gpu.Sample, error) {
	m.calling.Store(&call{uuid: uuid, since: m.config.Clock.Now()})
	defer m.calling.Store(nil)
	return m.config.Source.Read(uuid)
}

// judge takes in what a poll of a GPU says about its health.
func (m *Monitor) judge(ctx context.Context, info *gpu.Info, sample gpu.Sample, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.tracker.Fault(info.UUID)
	if err != nil {
		m.statistics.readFailed()
		m.tracker.Fail(info.UUID, err, m.config.Clock.Now())
	} else {
		m.tracker.Observe(sample, m.config.Clock.Now())
	}
	m.logHealth(ctx, info, before, err)
}

// logHealth tells of a change of health.
func (m *Monitor) logHealth(ctx context.Context, info *gpu.Info, before *gpu.Fault, err error) {
	after := m.tracker.Fault(info.UUID)
	logger := klog.FromContext(ctx).WithValues("gpu", info.Index, "uuid", info.UUID)
	switch {
	case before == nil && after != nil:
		logger.Error(err, "The GPU is unhealthy", "reason", after.Reason)
	case before != nil && after == nil:
		logger.Info("The GPU is healthy again", "was", before.Reason)
	}
}

// CheckDeadline notices a call that does not return. It is to be called more
// often than the deadline is long.
func (m *Monitor) CheckDeadline(ctx context.Context) {
	now := m.config.Clock.Now()
	under := m.calling.Load()
	if under == nil || now.Sub(under.since) < m.config.Deadline {
		return
	}
	m.statistics.hung(now.Sub(under.since))
	m.update(func(known *known) {
		for i := range known.inventory.GPUs {
			info := &known.inventory.GPUs[i]
			if info.UUID == under.uuid {
				before := m.tracker.Fault(info.UUID)
				m.tracker.Hang(info.UUID, now)
				m.logHealth(ctx, info, before, nil)
			}
		}
	})
}
