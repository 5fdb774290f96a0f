// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health decides which GPUs are healthy. A Tracker receives the results of polls
// and the driver's events, with their times; it has no clock of its own.
package health

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Reaction is the effect of an XID on its GPU's health.
type Reaction string

// The reactions.
const (
	// Ignore counts the XID and does nothing else.
	Ignore Reaction = "ignore"
	// Quiet makes the GPU unhealthy until the recovery period has passed without errors.
	Quiet Reaction = "quiet"
	// Reset makes the GPU unhealthy until it has been reset and the recovery period has
	// passed without errors since.
	Reset Reaction = "reset"
)

// Policy determines what makes a GPU unhealthy, and for how long.
type Policy struct {
	// XIDs are the reactions that differ from Default.
	XIDs map[uint64]Reaction
	// Default is the reaction to all other XIDs.
	Default Reaction
	// RecoveryPeriod is how long a GPU must be without errors before it is healthy again.
	RecoveryPeriod time.Duration
	// Escalation is what happens to GPUs that fail again and again.
	Escalation Escalation
}

// DefaultPolicy ignores the XIDs that NVIDIA's device plugin ignores: they
// report a fault of the program that runs on the GPU, not of the GPU. It also ignores the one that
// reports no fault. Every other XID requires a reset, unless the driver reports that none is
// needed.
func DefaultPolicy() Policy {
	return Policy{
		XIDs: map[uint64]Reaction{
			13:  Ignore, // graphics engine exception
			31:  Ignore, // GPU memory page fault
			43:  Ignore, // GPU stopped processing
			45:  Ignore, // preemptive clean-up, after other errors
			68:  Ignore, // video processor exception
			109: Ignore, // context switch timeout
			154: Ignore, // the recovery action has changed, also to none: each poll reads it
		},
		Default:        Reset,
		RecoveryPeriod: 5 * time.Minute,
		Escalation:     Escalation{After: 3, Window: 24 * time.Hour},
	}
}

func (p *Policy) reaction(xid uint64) Reaction {
	if reaction, listed := p.XIDs[xid]; listed {
		return reaction
	}
	return p.Default
}

const defaultKey = "default"

// With returns the policy with overrides such as "94=quiet,31=reset,default=quiet".
func (p Policy) With(changes string) (Policy, error) {
	p.XIDs = maps.Clone(p.XIDs)
	if changes == "" {
		return p, nil
	}
	var problems []error
	for change := range strings.SplitSeq(changes, ",") {
		if err := p.change(strings.TrimSpace(change)); err != nil {
			problems = append(problems, err)
		}
	}
	return p, errors.Join(problems...)
}

func (p *Policy) change(text string) error {
	key, value, found := strings.Cut(text, "=")
	reaction := Reaction(value)
	if !found || (reaction != Ignore && reaction != Quiet && reaction != Reset) {
		return fmt.Errorf("%q: expected XID=REACTION, with the reaction %s, %s or %s", text, Ignore, Quiet, Reset)
	}
	if key == defaultKey {
		p.Default = reaction
		return nil
	}
	xid, err := strconv.ParseUint(key, 10, 32)
	if err != nil {
		return fmt.Errorf("%q: %q is neither the number of an XID nor %q", text, key, defaultKey)
	}
	p.XIDs[xid] = reaction
	return nil
}
