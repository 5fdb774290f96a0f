// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"cmp"
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

// Options are what operators choose of the policies. The zero value stands for the defaults.
type Options struct {
	Policy Policy
	// MaxOvertake is how long after a job's submission others may still be submitted that go
	// before it, whatever its runtime and queue (Deadline). It bounds the wait of long jobs.
	MaxOvertake time.Duration
}

// DefaultMaxOvertake is the default of Options.MaxOvertake.
const DefaultMaxOvertake = 365 * day

const (
	day = 24 * time.Hour
	// century is more than any wait, and in seconds a double still has a resolution of a
	// millisecond after thousands of them.
	century = 36525 * day
	// defaultRuntime is assumed for jobs whose runtime is unknown.
	defaultRuntime = 4 * time.Hour

	// Deadline: stretch is how many times its runtime per GPU a job may have to wait, in a queue that has had
	// its due. shortest is added to the runtime per GPU, so that fair share counts between short jobs as well.
	// mostFactor caps how much a queue's fair-share factor multiplies the deadline, and one divided by it is the
	// least. These performed best on the trace of docs/benchmarks.md. With a stretch of 4 the order becomes that
	// of submission under overload, and so it does for long jobs if MaxOvertake is two weeks; with a larger factor
	// the wait depends more on the queue than on the job.
	stretch    = 32
	shortest   = 10 * time.Minute
	mostFactor = 2

	// Multifactor: age is the time in which waiting earns one point, as do a queue without usage, and a job as
	// large as largeJob, in GPUs.
	age      = 7 * day
	largeJob = 1024
)

// Key returns when a job's turn comes, in seconds since 1970; the smallest goes first.
// factor is the fair-share factor of its queue (see Factors): 1 if it has had its due.
//
//	fifo:        submitted
//	fairshare:   submitted + 100 years × factor
//	deadline:    submitted + min(stretch × (runtime ÷ GPUs + shortest) × clamp(factor), MaxOvertake)
//	multifactor: submitted - age × (2^-factor + GPUs ÷ largeJob)
//
// No key depends on the present time: a job that waits is passed only by jobs whose turns
// come before its own, and with fifo, deadline and multifactor jobs that are submitted
// long enough after it never are: with deadline, MaxOvertake after it. Together with the work
// that was there before, this bounds the wait.
func (o Options) Key(job *Job, factor float64) float64 {
	submitted := float64(job.Submitted.UnixMilli()) / 1000
	switch cmp.Or(o.Policy, Deadline) {
	case FairShare:
		return submitted + century.Seconds()*factor
	case Deadline:
		perGPU := float64(cmp.Or(max(job.Runtime.Typical(), 0), defaultRuntime)) / max(job.GPUs, 1)
		slack := stretch * (perGPU + float64(shortest)) * min(max(factor, 1.0/mostFactor), mostFactor)
		return submitted + min(slack, float64(cmp.Or(o.MaxOvertake, DefaultMaxOvertake)))/float64(time.Second)
	case Multifactor:
		return submitted - age.Seconds()*(math.Exp2(-factor)+min(job.GPUs/largeJob, 1))
	default:
		return submitted
	}
}
