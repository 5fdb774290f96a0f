// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"time"
)

// DefaultHalfLife is the time in which usage counts half as much.
const DefaultHalfLife = 7 * day

// Usage is GPU time that decays exponentially: what was used a half-life ago counts half.
type Usage struct {
	// GPUSeconds is the decayed GPU time, in seconds of a whole GPU, at the time At.
	GPUSeconds float64
	At         time.Time
}

// MaxAhead is by how much the clocks of processes that count one after the other may differ. What was counted up to a
// time that is further ahead was counted by a clock that was wrong: a reader that waited for that time would count
// nothing until then.
const MaxAhead = 5 * time.Minute

// DecayedTo returns the usage at a later time, with nothing used in between. An earlier time
// changes nothing. A half-life of 0 is the default.
func (u Usage) DecayedTo(at time.Time, halfLife time.Duration) Usage {
	if !at.After(u.At) {
		return u
	}
	if u.GPUSeconds > 0 { // the first usage has no time
		u.GPUSeconds *= decay(at.Sub(u.At), halfLife)
	}
	u.At = at
	return u
}

// Plus returns the usage at the end of a time in which a number of GPUs was held, from
// u.At on. It decays while it is held, so that many short steps add up to one long step.
// Usage without a time begins then.
func (u Usage) Plus(gpus float64, until time.Time, halfLife time.Duration) Usage {
	if !until.After(u.At) {
		return u
	}
	if u.At.IsZero() {
		return Usage{At: until}
	}
	held := until.Sub(u.At)
	u = u.DecayedTo(until, halfLife)
	// The integral of gpus × 2^(-t ÷ half-life) from 0 to held.
	u.GPUSeconds += gpus * perHalfLife(halfLife).Seconds() / math.Ln2 * (1 - decay(held, halfLife))
	return u
}

// Sum returns the usage of both at a time.
func (u Usage) Sum(other Usage, at time.Time, halfLife time.Duration) Usage {
	u = u.DecayedTo(at, halfLife)
	u.GPUSeconds += other.DecayedTo(at, halfLife).GPUSeconds
	return u
}

// decay returns the part that is left of usage after a time.
func decay(after, halfLife time.Duration) float64 {
	return math.Exp2(-after.Seconds() / perHalfLife(halfLife).Seconds())
}

func perHalfLife(halfLife time.Duration) time.Duration {
	if halfLife <= 0 {
		return DefaultHalfLife
	}
	return halfLife
}
