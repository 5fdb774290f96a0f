// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxLabels is how many labels are accounted at most: each distinguishes rows.
const maxLabels = 8

// Options are the flags about accounting.
type Options struct {
	// Period is how often usage is written; 0 for never.
	Period time.Duration
	// Labels are those of Pods that are accounted.
	Labels []string
}

// DefaultOptions returns the flags' defaults.
func DefaultOptions() Options { return Options{Period: time.Minute} }

// AddFlags adds the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.Period, "usage-period", o.Period, "how often used GPU time is written for kubectl gputask usage; 0 for never")
	flags.StringSliceVar(&o.Labels, "usage-labels", o.Labels, "labels of Pods by which kubectl gputask usage can group GPU time, at most 8")
}

// Validate checks all flags: it calls require with each condition and the error if it does not hold.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	require(o.Period == 0 || o.Period >= time.Second && o.Period <= time.Hour, "--usage-period=%v: must be 0, or from 1s to 1h", o.Period)
	require(len(o.Labels) <= maxLabels, "--usage-labels: %d labels, at most %d are possible", len(o.Labels), maxLabels)
	for _, label := range o.Labels {
		require(len(validation.IsQualifiedName(label)) == 0, "--usage-labels=%s: must be the name of a label", label)
	}
}

// settle is how long after a moment it is counted: by then it is known what Pods did. A node reports the end of a Pod
// later than it happened.
func (o *Options) settle() time.Duration { return o.Period / 2 }
