// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "time"

const (
	firstDelay = 200 * time.Millisecond
	maxDelay   = 5 * time.Second
	// healthyAfter is how long a process must have run for the backoff to be
	// reset.
	healthyAfter = 30 * time.Second
)

// nextDelay returns the backoff before a process is restarted, given its
// previous backoff (0 for its first start) and for how long it ran.
func nextDelay(previous, ran time.Duration) time.Duration {
	if previous == 0 || ran >= healthyAfter {
		return firstDelay
	}
	return min(2*previous, maxDelay)
}
