// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"time"
)

// renewAfter and renewRarely bound the age at which the connection is renewed for GPUs that
// do not answer: NVML finds a lost GPU only after it is initialized again. Each renewal
// takes seconds, and XIDs of other GPUs may be missed, so the interval grows for a GPU that
// stays dead.
const (
	renewAfter  = time.Minute
	renewRarely = 30 * time.Minute
)

var errSilent = errors.New("a GPU does not answer: it may have come back")

// renewals decides when to renew the connection for GPUs that do not answer.
type renewals struct {
	silent int
	delay  time.Duration
}

// due reports whether to renew a connection of this age for a number of silent GPUs. The
// interval starts over when that number changes.
func (r *renewals) due(silent int, age time.Duration) bool {
	if silent != r.silent {
		r.silent, r.delay = silent, renewAfter
	}
	if silent == 0 || age < r.delay {
		return false
	}
	r.delay = min(2*r.delay, renewRarely)
	return true
}
