// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// progressPause is how long a task's Pods must have stood still before their
	// numbers are written, unless something else has to be: the Pods of a gang
	// start one after the other, and all but the last would cost a write each. It
	// is longer than a Pod takes from its node to its start when the image is
	// there.
	progressPause = 2 * time.Second
	// progressLimit bounds how late the numbers can be while Pods never stand
	// still.
	progressLimit = 10 * time.Second
	// beginPause is how long it may take until a new task has a status: many that
	// start at once need no other than that they run.
	beginPause = time.Second
)

// heldProgress remembers statuses that tell nothing but progress and are not
// written yet. It need not outlive the process: the next one finds out again.
type heldProgress struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	byTask map[cache.ObjectName]*heldStatus
}

type heldStatus struct {
	status v1.GPUTaskStatus
	// since is when the written status began to be late, changed when the held
	// one changed last.
	since, changed time.Time
}

func newHeldProgress(clock clock.PassiveClock) *heldProgress {
	return &heldProgress{clock: clock, byTask: map[cache.ObjectName]*heldStatus{}}
}

// hold returns how long to wait before this status of a task is written; 0 if
// it is time to. It waits until nothing has changed for a pause, at most as long as
// a limit.
func (h *heldProgress) hold(task cache.ObjectName, status *v1.GPUTaskStatus, pause, limit time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	held := h.byTask[task]
	if held == nil {
		held = &heldStatus{since: now}
		h.byTask[task] = held
	}
	if held.changed.IsZero() || !equality.Semantic.DeepEqual(held.status, *status) {
		held.status, held.changed = *status, now
	}
	due := held.changed.Add(pause)
	if latest := held.since.Add(limit); latest.Before(due) {
		due = latest
	}
	return max(due.Sub(now), 0)
}

// release forgets the held status of a task: another was written, or the
// written one is right again.
func (h *heldProgress) release(task cache.ObjectName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byTask, task)
}
