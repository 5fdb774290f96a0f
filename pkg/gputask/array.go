// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// maxPodRestarts is how many entries status.podRestarts can have, in the CRD's schema.
const maxPodRestarts = 1000

// limitParallelism decides which members of an array have a Pod now: as many as spec.replicas
// says. Those that have one keep it; if there are too many, those go that have the least to lose.
func (d *decision) limitParallelism() {
	if !IsArray(d.Task) {
		return
	}
	places := min(Replicas(d.Task), d.granted(d.members[0].role))
	var active []*member
	for _, m := range d.members {
		if d.holdsPlace(m) {
			active = append(active, m)
		}
	}
	slices.SortStableFunc(active, func(a, b *member) int { return cmp.Compare(a.toLose(), b.toLose()) })
	for _, m := range active[min(places, len(active)):] {
		m.queued = true
		if m.pod != nil && m.state.isActive() && m.state != podTerminating {
			d.plan.Delete = append(d.plan.Delete, m.pod)
		}
	}
	free := places - len(active)
	for _, m := range d.members {
		if m.done() || d.holdsPlace(m) {
			continue
		}
		m.queued = free <= 0
		if d.backoffLeft(m) == 0 {
			free--
		}
	}
}

// holdsPlace reports whether a member of an array is one of those that run at the same time. One
// that waits for its restart leaves its place to others, unless the status could not hold the
// restarts of all that might fail meanwhile.
func (d *decision) holdsPlace(m *member) bool {
	if m.done() {
		return false
	}
	if m.pod != nil && (!m.stale || m.state != podFailed) {
		return true
	}
	return m.lastFailure != nil && (d.backoffLeft(m) == 0 || len(d.status.PodRestarts) > maxPodRestarts-Replicas(d.Task))
}

// toLose ranks the members of an array by what is lost if they have to wait: 0 for the most.
func (m *member) toLose() int {
	switch {
	case m.runs():
		return 0
	case m.pod != nil && !m.stale && m.pod.Spec.NodeName != "":
		return 1
	case m.pod != nil && !m.stale:
		return 2
	default:
		return 3
	}
}

// failExhausted fails the indexes of an array that have no restarts left, and returns the other
// members.
func (d *decision) failExhausted(failed []*member) (rest []*member) {
	for _, m := range failed {
		if d.ownRestarts(m) >= *d.Task.Spec.BackoffLimitPerIndex {
			d.failIndex(m)
			continue
		}
		rest = append(rest, m)
	}
	return rest
}

// failIndex records that a member of an array has failed for good.
func (d *decision) failIndex(m *member) {
	d.failed.add(m.index)
	m.failed = true
	d.status.FailedIndexes = d.failed.String()
	d.forgetRestarts(m)
	d.checkFailedIndexes(failureOf(m.pod) + "; ")
}

// checkFailedIndexes fails an array of which more indexes have failed than may. why is what has led to
// it, if it was not the limit that has changed.
func (d *decision) checkFailedIndexes(why string) {
	if limit := d.Task.Spec.MaxFailedIndexes; limit != nil && len(d.failed) > int(*limit) {
		d.setFailureTarget(v1.ReasonMaxFailedIndexes, fmt.Sprintf("%s%s failed (spec.maxFailedIndexes is %d)", why, indexCount(len(d.failed)), *limit))
	}
}

// forgetRestarts drops the restarts of a member of an array that is done, so that the status has
// room for those of others.
func (d *decision) forgetRestarts(m *member) {
	if !IsArray(d.Task) {
		return
	}
	if at, found := findRestarts(d.status, m.index); found {
		d.status.PodRestarts = slices.Delete(d.status.PodRestarts, at, at+1)
	}
}

// failIndexes fails an array of which all members are done.
func (d *decision) failIndexes() {
	d.setFailureTarget(v1.ReasonFailedIndexes, fmt.Sprintf("%s of %d failed: %s",
		indexCount(len(d.failed)), len(d.members), d.status.FailedIndexes))
	d.stopAndFail()
}

func indexCount(n int) string { return fmt.Sprintf("%d %s", n, plural.Verb(n, "index", "indexes")) }
