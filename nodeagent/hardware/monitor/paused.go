// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func (m *Monitor) paused() error {
	if m.config.Paused == nil {
		return nil
	}
	return m.config.Paused()
}

// leaveAlone disconnects from the driver, so that nothing of this process keeps it in use. A call
// that is in flight delays that to a later poll.
func (m *Monitor) leaveAlone(ctx context.Context, reason error) {
	m.reachable = reachability{}
	problem := fmt.Errorf("%w: %w", gpu.ErrPaused, reason)
	if m.calls.idle() {
		m.connection.close(ctx)
		m.connection.forgetFailures()
		m.stale = nil
	} else {
		problem = fmt.Errorf("%w; a call of it has not returned yet", problem)
	}
	if before := m.Snapshot().Problem; before == nil || before.Error() != problem.Error() {
		klog.FromContext(ctx).Info("The GPUs are not watched, and not offered to containers", "reason", problem)
	}
	m.setProblem(problem)
}
