// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "time"

const (
	firstDelay = 200 * time.Millisecond
	maxDelay   = 5 * time.Second
	// healthyAfter is how long a process must have run for its failures before
	// that to be forgotten.
	healthyAfter = 30 * time.Second
)

// nextDelay returns how long to wait before a process is started again that
// ran for this long and had waited for previous before (0 for its first start).
func nextDelay(previous, ran time.Duration) time.Duration {
	if previous == 0 || ran >= healthyAfter {
		return firstDelay
	}
	return min(2*previous, maxDelay)
}
