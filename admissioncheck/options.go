// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admissioncheck

import (
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Options are the settings of the admission check.
type Options struct {
	// Enabled switches it on.
	Enabled bool
	// Patience is how long a Workload keeps its quota while it waits for places.
	Patience time.Duration
	// Retry is how long a Workload that has given its quota back waits before it queues again.
	Retry time.Duration
	// Levels are those of the topology.
	Levels snapshot.Levels
}

// DefaultOptions returns the flags' defaults: the check is disabled.
func DefaultOptions() Options {
	return Options{Patience: 30 * time.Second, Retry: time.Minute, Levels: snapshot.DefaultLevels()}
}

// AddFlags adds the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Enabled, "kueue-gpu-fit", o.Enabled,
		"answer Kueue's AdmissionChecks of the controller "+ControllerName+": a Workload is ready when there are places for all of its Pods")
	flags.DurationVar(&o.Patience, "kueue-gpu-fit-patience", o.Patience,
		"how long a Workload of Kueue keeps its quota while it waits for places, before it releases it to others")
	flags.DurationVar(&o.Retry, "kueue-gpu-fit-retry", o.Retry,
		"how long a Workload of Kueue that has released its quota waits before it queues again")
}

// Validate checks all flags: it calls require with each condition and the error if it does not
// hold.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	require(o.Patience >= 0, "--kueue-gpu-fit-patience=%v: must not be negative", o.Patience)
	require(o.Retry >= time.Second, "--kueue-gpu-fit-retry=%v: must be at least 1s", o.Retry)
}
