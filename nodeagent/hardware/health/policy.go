// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health decides which GPUs can be trusted. A Tracker is told what polls
// and the driver's events show, and when; it has no clock of its own.
package health

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Reaction is what an XID does to its GPU.
type Reaction string

// The reactions.
const (
	// Ignore counts the XID and does nothing else.
	Ignore Reaction = "ignore"
	// Quiet makes the GPU unhealthy until nothing has happened for the recovery
	// period.
	Quiet Reaction = "quiet"
	// Reset makes the GPU unhealthy until it was reset and nothing has happened
	// for the recovery period since.
	Reset Reaction = "reset"
)

// Policy says what makes a GPU unhealthy, and for how long.
type Policy struct {
	// XIDs are the reactions that differ from Default.
	XIDs map[uint64]Reaction
	// Default is the reaction to all other XIDs.
	Default Reaction
	// RecoveryPeriod is how long a GPU must be without trouble before it is
	// healthy again.
	RecoveryPeriod time.Duration
}

// DefaultPolicy ignores the XIDs that NVIDIA's device plugin ignores: they
// report a fault of the program that runs on the GPU, not of the GPU. Every
// other XID needs a reset, or the driver's word that none is needed.
func DefaultPolicy() Policy {
	return Policy{
		XIDs: map[uint64]Reaction{
			13:  Ignore, // graphics engine exception
			31:  Ignore, // GPU memory page fault
			43:  Ignore, // GPU stopped processing
			45:  Ignore, // preemptive clean-up, after other errors
			68:  Ignore, // video processor exception
			109: Ignore, // context switch timeout
		},
		Default:        Reset,
		RecoveryPeriod: 5 * time.Minute,
	}
}

func (p *Policy) reaction(xid uint64) Reaction {
	if reaction, listed := p.XIDs[xid]; listed {
		return reaction
	}
	return p.Default
}

const defaultKey = "default"

// With returns the policy with changes such as "94=quiet,31=reset,default=quiet".
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
