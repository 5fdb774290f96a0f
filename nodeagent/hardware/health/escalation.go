// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Escalation makes a GPU that fails again and again stay unhealthy until it is reset. Otherwise
// a driver that requires nothing after an error would return it to work every time.
type Escalation struct {
	// After is how many faults within Window it takes; 0 for never.
	After int
	// Window is the time in which they are counted.
	Window time.Duration
}

// MaxAfter bounds Escalation.After, because the time of each fault is published.
const MaxAfter = 20

// reached reports whether these faults are enough, the last of which is now.
func (e *Escalation) reached(faults []time.Time) bool { return e.After > 0 && len(faults) >= e.After }

// add adds a fault and forgets those that no longer matter.
func (e *Escalation) add(faults []time.Time, now time.Time) []time.Time {
	if e.After == 0 {
		return nil
	}
	kept := make([]time.Time, 0, e.After) // not in place: snapshots share the old one
	for _, at := range faults {
		if now.Sub(at) < e.Window {
			kept = append(kept, at)
		}
	}
	kept = append(kept, now)
	return kept[max(0, len(kept)-e.After):]
}

// describe says how often a GPU has failed: "3 times in 24h".
func (e *Escalation) describe(faults []time.Time) string {
	return fmt.Sprintf("%d times in %s", len(faults), shortDuration(e.Window))
}

// shortDuration prints 24h0m0s as 24h.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// countFault counts the GPU's current fault, once, as one that the GPU itself has caused, and
// escalates if it is one too many.
func (t *Tracker) countFault(s *state) {
	since := s.fault.Since
	if last := len(s.pastFaults) - 1; last >= 0 && !s.pastFaults[last].Before(since) {
		return // counted before
	}
	s.pastFaults = t.policy.Escalation.add(s.pastFaults, since)
	if !t.policy.Escalation.reached(s.pastFaults) {
		return
	}
	repeated := t.policy.Escalation.describe(s.pastFaults)
	t.requireReset(s)
	s.change(func(fault *gpu.Fault) { fault.Repeated = repeated })
}
