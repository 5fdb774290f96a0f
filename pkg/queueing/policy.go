// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Policy is the order between queues.
type Policy string

// The policies. Key has their formulas.
const (
	// FIFO serves who has waited the longest.
	FIFO Policy = "fifo"
	// FairShare serves the queue that has had the least of its due.
	FairShare Policy = "fairshare"
	// Deadline serves by a virtual deadline: short jobs, and jobs of queues that have had
	// less than their due, need not wait for long. It is the default.
	Deadline Policy = "deadline"
	// Multifactor weighs age, size and fair share, as Slurm's plugin priority/multifactor
	// does.
	Multifactor Policy = "multifactor"
)

// Policies returns the names of all policies.
func Policies() []string {
	return []string{string(Deadline), string(FairShare), string(FIFO), string(Multifactor)}
}

// ParsePolicy returns the policy with a name; the default for an empty one.
func ParsePolicy(name string) (Policy, error) {
	if name == "" {
		return Deadline, nil
	}
	if !slices.Contains(Policies(), name) {
		return "", fmt.Errorf("queue policy: must be one of %s, is %q", strings.Join(Policies(), ", "), name)
	}
	return Policy(name), nil
}

// Options are the parameters of the policies. The zero value stands for the defaults.
type Options struct {
	Policy Policy
	// Stretch is how many times its runtime per GPU a job may have to wait, in a queue that
	// has had its due (Deadline).
	Stretch float64
	// MaxOvertake is how long after a job's submission others may still be submitted that go
	// before it, whatever its runtime and queue (Deadline). It bounds the wait of long jobs.
	MaxOvertake time.Duration
	// Shortest is added to the runtime per GPU, so that fair share counts between short jobs
	// as well (Deadline).
	Shortest time.Duration
	// MostFactor caps how much a queue's fair-share factor multiplies the deadline, and one
	// divided by it is the least (Deadline).
	MostFactor float64
	// DefaultRuntime is assumed for jobs whose runtime is unknown.
	DefaultRuntime time.Duration
	// Age is the time in which waiting earns one point; FairShareWeight and SizeWeight are
	// the points for a queue without usage, and for a job as large as ClusterGPUs
	// (Multifactor).
	Age                         time.Duration
	FairShareWeight, SizeWeight float64
	ClusterGPUs                 float64
}

// DefaultMaxOvertake is the default of Options.MaxOvertake.
const DefaultMaxOvertake = 365 * day

const (
	day = 24 * time.Hour
	// century is more than any wait, and in seconds a double still has a resolution of a
	// millisecond after thousands of them.
	century = 36525 * day
)

// WithDefaults returns the options with defaults for what is not set. The constants of
// Deadline performed best on the trace of docs/benchmarks.md. With a stretch of 4 the order
// becomes that of submission under overload, and so it does for long jobs if MaxOvertake is two
// weeks; with a larger factor the wait depends more on the queue than on the job.
func (o Options) WithDefaults() Options {
	defaultTo(&o.Policy, Deadline)
	defaultTo(&o.Stretch, 32)
	defaultTo(&o.MaxOvertake, DefaultMaxOvertake)
	defaultTo(&o.Shortest, 10*time.Minute)
	defaultTo(&o.MostFactor, 2)
	defaultTo(&o.DefaultRuntime, 4*time.Hour)
	defaultTo(&o.Age, 7*day)
	defaultTo(&o.FairShareWeight, 1)
	defaultTo(&o.SizeWeight, 1)
	defaultTo(&o.ClusterGPUs, 1024)
	return o
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Key returns when a job's turn comes, in seconds since 1970; the smallest goes first.
// factor is the fair-share factor of its queue (see Factors): 1 if it has had its due.
//
//	fifo:        submitted
//	fairshare:   submitted + 100 years × factor
//	deadline:    submitted + min(Stretch × (runtime ÷ GPUs + Shortest) × clamp(factor), MaxOvertake)
//	multifactor: submitted - Age × (FairShareWeight × 2^-factor + SizeWeight × GPUs ÷ ClusterGPUs)
//
// No key depends on the present time: a job that waits is passed only by jobs whose turns
// come before its own, and with fifo, deadline and multifactor jobs that are submitted
// long enough after it never are: with deadline, MaxOvertake after it. Together with the work
// that was there before, this bounds the wait.
func (o Options) Key(job *Job, factor float64) float64 {
	o = o.WithDefaults()
	return o.key(job, factor)
}

// key is Key for options with defaults.
func (o *Options) key(job *Job, factor float64) float64 {
	submitted := float64(job.Submitted.UnixMilli()) / 1000
	switch o.Policy {
	case FairShare:
		return submitted + century.Seconds()*factor
	case Deadline:
		perGPU := float64(o.runtime(job)) / max(job.GPUs, 1)
		slack := o.Stretch * (perGPU + float64(o.Shortest)) * min(max(factor, 1/o.MostFactor), o.MostFactor)
		return submitted + min(slack, float64(o.MaxOvertake))/float64(time.Second)
	case Multifactor:
		points := o.FairShareWeight*math.Exp2(-factor) + o.SizeWeight*min(job.GPUs/o.ClusterGPUs, 1)
		return submitted - o.Age.Seconds()*points
	default:
		return submitted
	}
}

// runtime returns the runtime that orders a job.
func (o *Options) runtime(job *Job) time.Duration {
	if typical := job.Runtime.Typical(); typical > 0 {
		return typical
	}
	return o.DefaultRuntime
}
