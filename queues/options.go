// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Options are the flags about queues.
type Options struct {
	// HalfLife is after how long GPU time counts half.
	HalfLife time.Duration
}

// DefaultOptions returns the flags' defaults.
func DefaultOptions() Options { return Options{HalfLife: queueing.DefaultHalfLife} }

// AddFlags adds the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.HalfLife, "queue-usage-half-life", o.HalfLife,
		"half-life of the GPU time that counts for the fair share of GPUQueues")
}

// Validate checks all flags: it calls require with each condition and the error if it does not hold.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	require(o.HalfLife >= time.Minute, "--queue-usage-half-life=%v: must be at least 1m", o.HalfLife)
}
