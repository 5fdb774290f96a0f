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
	// progressDelay is how long a task's Pods must be unchanged before their counts are
	// written, unless the status must be written for another reason: the Pods of a gang
	// start one after the other, and all but the last would cost a write each. It is longer
	// than a Pod takes from binding to start if its image is present.
	progressDelay = 2 * time.Second
	// maxProgressDelay bounds how stale the counts can be while Pods keep changing.
	maxProgressDelay = 10 * time.Second
	// firstStatusDelay is how long a new task may be without a status: many tasks that
	// start at once then need only one write, that they run.
	firstStatusDelay = time.Second
)

// statusDebouncer holds back statuses that report nothing but progress. It need not survive
// the process: the next one computes them again.
type statusDebouncer struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	byTask map[cache.ObjectName]*pendingStatus
}

type pendingStatus struct {
	status v1.GPUTaskStatus
	// since is when the written status became stale, changed when the pending one last
	// changed.
	since, changed time.Time
}

// delay returns how long to wait before this status of a task is written, 0 if it is due:
// when it has been unchanged for a pause, and after the limit at the latest.
func (d *statusDebouncer) delay(task cache.ObjectName, status *v1.GPUTaskStatus, pause, limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	pending := d.byTask[task]
	if pending == nil {
		pending = &pendingStatus{since: now}
		d.byTask[task] = pending
	}
	if pending.changed.IsZero() || !equality.Semantic.DeepEqual(pending.status, *status) {
		pending.status, pending.changed = *status, now
	}
	due := pending.changed.Add(pause)
	if latest := pending.since.Add(limit); latest.Before(due) {
		due = latest
	}
	return max(due.Sub(now), 0)
}

// forget drops the pending status of a task: another one was written, or the written one is
// right again.
func (d *statusDebouncer) forget(task cache.ObjectName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byTask, task)
}
