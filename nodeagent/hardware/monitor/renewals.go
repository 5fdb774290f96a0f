// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"time"
)

// renewAfter and renewRarely bound how old the connection must be before it is
// renewed for the sake of GPUs that do not answer: NVML never finds a GPU again
// that it has lost, except from the start. Each renewal takes seconds, and XIDs
// of all other GPUs may be missed, so a dead GPU causes fewer and fewer.
const (
	renewAfter  = time.Minute
	renewRarely = 30 * time.Minute
)

var errSilent = errors.New("a GPU does not answer: it may have come back")

// renewals decides when it is time for another attempt.
type renewals struct {
	silent int
	delay  time.Duration
}

// due reports whether a connection of this age is to be renewed for the sake of so
// many GPUs. With each change of their number the attempts start over.
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
