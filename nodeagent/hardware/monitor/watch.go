// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Watch records the driver's events until ctx ends.
func (m *Monitor) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		live, done, ok := m.connection.use(ctx)
		if !ok {
			return
		}
		err := m.config.Source.Watch(live, func(event gpu.Event) { m.report(ctx, event) })
		switch {
		case errors.Is(err, gpu.ErrUnsupported):
			klog.FromContext(ctx).Info("The GPUs report no events; errors are found by polling", "reason", err)
			<-live.Done()
		case err != nil:
			klog.FromContext(ctx).Error(err, "Waiting for events of the GPUs failed; will retry")
			select {
			case <-live.Done():
			case <-m.config.Clock.After(firstRetry):
			}
		}
		done()
	}
}

func (m *Monitor) report(ctx context.Context, event gpu.Event) {
	klog.FromContext(ctx).Info("A GPU reports an error", "uuid", event.UUID, "xid", event.XID)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withHealthLogged(ctx, nil, func() { m.tracker.Report(event, m.config.Clock.Now()) })
	m.publish()
}
