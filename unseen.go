// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// unseenTimeout is how long a write is waited for in the cache: much longer
// than watches are late, and short enough that a lost event is no harm.
const unseenTimeout = 30 * time.Second

// unseenWrites remembers what the controller wrote that its caches don't show
// yet. A decision made before they do would repeat work, or start from a
// status that no longer holds. It is only an optimisation across restarts:
// names of Pods are fixed and status writes carry a resource version.
type unseenWrites struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	byTask map[cache.ObjectName]*taskWrites
}

type taskWrites struct {
	// pods are the names of the Pods that were created.
	pods map[string]struct{}
	// taskVersion is the resource version of the task after its last write.
	taskVersion string
	since       time.Time
}

func newUnseenWrites(clock clock.PassiveClock) *unseenWrites {
	return &unseenWrites{clock: clock, byTask: map[cache.ObjectName]*taskWrites{}}
}

// createsPod is called before a Pod is created, since its event may arrive
// before the request returns.
func (u *unseenWrites) createsPod(task cache.ObjectName, pod string) {
	u.add(task, func(w *taskWrites) { w.pods[pod] = struct{}{} })
}

// sawPod is called for every event of a Pod, and when a creation failed.
func (u *unseenWrites) sawPod(task cache.ObjectName, pod string) {
	u.update(task, func(w *taskWrites) { delete(w.pods, pod) })
}

// wroteTask is called with the resource version that a write of the task's
// status returned.
func (u *unseenWrites) wroteTask(task cache.ObjectName, version string) {
	u.add(task, func(w *taskWrites) { w.taskVersion = version })
}

// sawTask is called for every event of a task with its resource version.
func (u *unseenWrites) sawTask(task cache.ObjectName, version string) {
	u.update(task, func(w *taskWrites) {
		if order, err := resourceversion.CompareResourceVersion(version, w.taskVersion); err != nil || order >= 0 {
			w.taskVersion = ""
		}
	})
}

// forget drops everything about a task that is gone.
func (u *unseenWrites) forget(task cache.ObjectName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byTask, task)
}

// waitFor returns how long to wait at most until the caches show all writes of
// a task; 0 if they do.
func (u *unseenWrites) waitFor(task cache.ObjectName) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	writes := u.byTask[task]
	if writes == nil {
		return 0
	}
	left := unseenTimeout - u.clock.Since(writes.since)
	if left <= 0 {
		delete(u.byTask, task)
		return 0
	}
	return left
}

// update changes the writes of a task and drops them when all were seen. Most
// events are about nothing that was written here.
func (u *unseenWrites) update(task cache.ObjectName, change func(*taskWrites)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	writes := u.byTask[task]
	if writes == nil {
		return
	}
	change(writes)
	if len(writes.pods) == 0 && writes.taskVersion == "" {
		delete(u.byTask, task)
	}
}

// add is update for a new write.
func (u *unseenWrites) add(task cache.ObjectName, change func(*taskWrites)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	writes := u.byTask[task]
	if writes == nil {
		writes = &taskWrites{pods: map[string]struct{}{}}
		u.byTask[task] = writes
	}
	change(writes)
	writes.since = u.clock.Now()
}
