// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"maps"

	"k8s.io/klog/v2"
)

// withHealthLogged makes a change that may affect the health of GPUs, and logs each GPU
// whose health changes, with the error if reading it has just failed. It returns whether
// any has changed. The mutex must be held.
func (m *Monitor) withHealthLogged(ctx context.Context, read results, change func()) (changed bool) {
	before := m.tracker.Faults()
	change()
	after := m.tracker.Faults()
	for uuid, fault := range after {
		if before[uuid] == nil {
			m.loggerOf(ctx, uuid).Error(read[uuid].err, "The GPU is unhealthy", "reason", fault.Reason)
		}
	}
	for uuid, fault := range before {
		if after[uuid] == nil {
			m.loggerOf(ctx, uuid).Info("The GPU is healthy again", "was", fault.Reason)
		}
	}
	return !maps.Equal(before, after)
}

func (m *Monitor) loggerOf(ctx context.Context, uuid string) klog.Logger {
	logger := klog.FromContext(ctx).WithValues("uuid", uuid)
	for i := range m.current.found.inventory.GPUs {
		if info := &m.current.found.inventory.GPUs[i]; info.UUID == uuid {
			return logger.WithValues("gpu", info.Index)
		}
	}
	return logger
}
