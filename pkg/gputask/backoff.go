// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import "time"

// Backoff is the delay before a restart. It doubles with every failure, as the Job
// controller's does.
type Backoff struct {
	// Base is the delay after the first failure.
	Base time.Duration
	// Max bounds the delay.
	Max time.Duration
}

// After returns the delay after the given number of failures; 0 for none.
func (b Backoff) After(failures int32) time.Duration {
	if failures <= 0 {
		return 0
	}
	delay := b.Base
	for range failures - 1 {
		if delay >= b.Max {
			break
		}
		delay *= 2
	}
	return min(delay, b.Max)
}
