// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"maps"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

// stall is a gang that waits for Pods of which nobody knows when they end. One that never ends must not keep nodes from
// others for ever.
type stall struct {
	// since is since when none of the Pods has left that it has waited for: leaving, on all nodes that were booked
	// meanwhile.
	since   time.Time
	leaving map[string]bool
	// pausedUntil is until when others may use the nodes.
	pausedUntil time.Time
}

// pauses reports whether others may use the nodes of a gang. It requires the lock.
func (a *ahead) pauses(group string, now time.Time) bool {
	return now.Before(a.stalls[group].pausedUntil)
}

// pauseStalled ends the bookings that wait for Pods whose ends are only assumed, if none of these has left for as long
// as patience, given all Pods that run. These gangs get none for as long again. It returns what has changed.
func (a *ahead) pauseStalled(bookings []backfill.Booking, running []backfill.Running, assumed map[string]bool, now time.Time, patience time.Duration) (changes []backfill.Change) {
	runs := map[string]bool{}
	for i := range running {
		for _, pod := range running[i].Pods {
			runs[pod] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	waits := make(map[string]bool, len(bookings))
	for i := range bookings {
		r := &bookings[i]
		unknown := slices.IndexFunc(r.Leaving, func(leaving backfill.Leaver) bool { return assumed[leaving.Job] })
		if unknown < 0 {
			continue
		}
		waits[r.Key] = true
		one, known := a.stalls[r.Key]
		switch {
		case !known || !one.pausedUntil.IsZero() || !isSubset(one.leaving, runs):
			one = stall{since: now, leaving: map[string]bool{}}
		case now.Sub(one.since) >= patience:
			one.pausedUntil = now.Add(patience)
			changes = append(changes, backfill.Change{Key: r.Key, Was: r.From, Cause: backfill.Cause{Kind: backfill.EndUnknown, Job: r.Leaving[unknown].Job}})
			*r = backfill.Booking{Key: r.Key}
		}
		for _, leaver := range r.Leaving {
			one.leaving[leaver.Pod] = true
		}
		if a.stalls == nil {
			a.stalls = map[string]stall{}
		}
		a.stalls[r.Key] = one
	}
	maps.DeleteFunc(a.stalls, func(group string, one stall) bool { return !waits[group] && !now.Before(one.pausedUntil) })
	return changes
}

// isSubset reports whether all has each of some.
func isSubset(some, all map[string]bool) bool {
	for one := range some {
		if !all[one] {
			return false
		}
	}
	return true
}
