// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Every calls a function after each period until ctx ends.
func Every(ctx context.Context, clock clock.WithTicker, period time.Duration, do func()) {
	ticker := clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			do()
		}
	}
}

// Sleep waits for a while. If ctx ends, it returns why, even if the time is over, too: whoever pressed Ctrl-C
// is not shown one more answer.
func Sleep(ctx context.Context, clock clock.Clock, length time.Duration) error {
	timer := clock.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
	return context.Cause(ctx)
}
