// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	// cycleCheckPeriod is how often cycles of dependencies are looked for, if dependencies have
	// changed.
	cycleCheckPeriod = 500 * time.Millisecond
	// cycleCheckRest is how much longer than the last search the pause before the next one is:
	// however many dependencies there are, the search takes a twentieth of a CPU at most.
	cycleCheckRest = 20
)

// cycleFinder knows the cycles of dependencies, by the tasks on them. They are found for all tasks
// at once: to look for them whenever a task changes would take time in proportion to all
// dependencies for each task.
type cycleFinder struct {
	*dependencies
	// enqueue has a task handled.
	enqueue func(task cache.ObjectName)

	mu    sync.Mutex
	dirty bool
	known map[cache.ObjectName][]string
}

// of returns a cycle that a task is on, nil if it is on none.
func (f *cycleFinder) of(task cache.ObjectName) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[task]
}

// changed records that a task came, went, or no longer waits for others.
func (f *cycleFinder) changed(task *v1.GPUTask) {
	if len(task.Spec.DependsOn) == 0 {
		return // it is on no cycle
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = true
}

// begin reports whether a search is due.
func (f *cycleFinder) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.dirty
	f.dirty = false
	return due
}

// set replaces the cycles and returns the tasks whose cycle has changed.
func (f *cycleFinder) set(cycles map[cache.ObjectName][]string) (changed []cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for task, cycle := range cycles {
		if !slices.Equal(cycle, f.known[task]) {
			changed = append(changed, task)
		}
	}
	for task := range f.known {
		if _, still := cycles[task]; !still {
			changed = append(changed, task)
		}
	}
	f.known = cycles
	return changed
}

// run looks for cycles whenever dependencies have changed, until ctx ends.
func (f *cycleFinder) run(ctx context.Context) {
	ticker := f.clock.NewTicker(cycleCheckPeriod)
	defer ticker.Stop()
	var notBefore time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C():
			if now.Before(notBefore) || !f.begin() {
				continue
			}
			begin := f.clock.Now()
			f.update()
			notBefore = f.clock.Now().Add(cycleCheckRest * f.clock.Since(begin))
		}
	}
}

// update finds all cycles and enqueues the tasks whose cycle has changed.
func (f *cycleFinder) update() {
	byNamespace := map[string][]*v1.GPUTask{}
	for _, object := range f.taskIndex.List() {
		if task, ok := object.(*v1.GPUTask); ok && gputask.WaitsForDependencies(task) {
			byNamespace[task.Namespace] = append(byNamespace[task.Namespace], task)
		}
	}
	cycles := map[cache.ObjectName][]string{}
	for namespace, tasks := range byNamespace {
		for name, cycle := range gputask.Cycles(tasks) {
			cycles[cache.NewObjectName(namespace, name)] = cycle
		}
	}
	for _, task := range f.set(cycles) {
		f.enqueue(task)
	}
}
