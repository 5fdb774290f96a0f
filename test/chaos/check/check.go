// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds in a history what must never happen: see Invariants. It has no client and no
// clock, so that a history gives the same result whenever it is read.
package check

import (
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// Violation is something that must not have happened.
type Violation struct {
	// Invariant is its name, Subject the object that it is about.
	Invariant, Subject string
	Message            string
	// Index is the entry of the history with which it became certain.
	Index   int
	Elapsed time.Duration
}

// String returns the violation as a line of a report.
func (v *Violation) String() string {
	return fmt.Sprintf("%s, %s: %s (after %v)", v.Invariant, v.Subject, v.Message, v.Elapsed.Round(time.Millisecond))
}

// same reports whether two violations are of the same invariant by the same object.
func (v *Violation) same(other *Violation) bool {
	return v.Invariant == other.Invariant && v.Subject == other.Subject
}

// mostViolations bounds what one invariant reports: a broken one breaks again and again.
const mostViolations = 20

// invariant follows a history. It reports each violation once.
type invariant interface {
	// take is called for each entry, when the world has it.
	take(w *world, s *step)
}

// Checker follows a history entry by entry.
type Checker struct {
	world      *world
	invariants []invariant
	reported   map[string]bool
	counts     map[string]int
	violations []Violation
}

// New returns a Checker of all invariants.
func New(config Config) *Checker {
	c := &Checker{reported: map[string]bool{}, counts: map[string]int{}}
	c.world = newWorld(config, c.report)
	c.invariants = []invariant{
		newCards(), newGangs(), &infeasible{}, newAttempts(), newFailures(), newOthers(), newRunning(), &guarded{},
		newMoves(), newEvictions(), newWaits(), &leftovers{}, &convergence{}, &agents{}, newProcesses(), newQueues(), newCurrent(), newWoken(), newStarts(),
	}
	return c
}

// Take follows one more entry.
func (c *Checker) Take(entry *history.Entry) {
	s := c.world.take(entry)
	for _, one := range c.invariants {
		one.take(c.world, s)
	}
}

// Violations returns what was found so far.
func (c *Checker) Violations() []Violation { return c.violations }

// report records a violation, the first of its invariant and subject.
func (c *Checker) report(name, subject, format string, args ...any) {
	key := name + "\x00" + subject
	if c.reported[key] || c.counts[name] >= mostViolations {
		return
	}
	c.reported[key] = true
	c.counts[name]++
	c.violations = append(c.violations, Violation{
		Invariant: name, Subject: subject, Message: fmt.Sprintf(format, args...), Index: c.world.index, Elapsed: c.world.elapsed,
	})
}

// All returns the violations in a history.
func All(config Config, entries []history.Entry) []Violation {
	c := New(config)
	for i := range entries {
		c.Take(&entries[i])
	}
	return c.Violations()
}
