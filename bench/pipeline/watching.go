// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// stallLimit is how long nothing may happen before a measurement is aborted.
const stallLimit = 2 * time.Minute

// source is a kind of objects to watch, and the handler of their events.
type source struct {
	watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
	handle func(watch.Event, time.Time)
	// selector is a label selector, empty for all.
	selector string
}

// follow passes the events of a source to its handler until ctx ends. A watch that breaks
// off is resumed.
func follow(ctx context.Context, s source, version string) error {
	for {
		watcher, err := s.watch(ctx, metav1.ListOptions{
			LabelSelector: s.selector, ResourceVersion: version, AllowWatchBookmarks: true,
		})
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		version, err = drain(watcher, version, s.handle)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// drain passes the events of one watch to a handler and returns the last version.
func drain(watcher watch.Interface, version string, handle func(watch.Event, time.Time)) (string, error) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		now := time.Now()
		if event.Type == watch.Error {
			return "", fmt.Errorf("watching: %v", event.Object)
		}
		described, ok := event.Object.(metav1.Object)
		if !ok {
			return "", fmt.Errorf("watching: unexpected %T", event.Object)
		}
		version = described.GetResourceVersion()
		handle(event, now)
	}
	return version, nil
}

// podsOf and tasksOf are what a timeline watches.
func podsOf(c *clients, t *timeline) source {
	return source{watch: c.pods.Watch, handle: t.handlePod, selector: v1.SelectorOfTasks}
}

func tasksOf(c *clients, t *timeline) source {
	return source{watch: c.tasks.FalldioV1().GPUTasks(namespace).Watch, handle: t.handleTask}
}

// await waits until a timeline is done.
func await(ctx context.Context, t *timeline, start time.Time) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		running, all, last := t.progress()
		if last.Before(start) {
			last = start
		}
		if time.Since(last) > stallLimit {
			return fmt.Errorf("%w: %d of %d Pods run, and none was bound or started for %v", errStalled, running, all, stallLimit)
		}
	}
}

var errStalled = errors.New("no progress")
