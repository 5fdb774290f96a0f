// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// stallLimit is how long nothing may happen before a measurement is given up.
const stallLimit = 2 * time.Minute

// follow notes what happens to the Pods until ctx ends. A watch that breaks off
// is resumed.
func follow(ctx context.Context, c *clients, version string, into *timeline) error {
	for {
		watcher, err := c.pods.Watch(ctx, metav1.ListOptions{
			LabelSelector: ofTasks(), ResourceVersion: version, AllowWatchBookmarks: true,
		})
		if err != nil {
			return fmt.Errorf("watching Pods: %w", err)
		}
		version, err = drain(watcher, version, into)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// drain notes the events of one watch and returns the last version.
func drain(watcher watch.Interface, version string, into *timeline) (string, error) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		now := time.Now()
		if event.Type == watch.Error {
			return "", fmt.Errorf("watching Pods: %v", event.Object)
		}
		described, ok := event.Object.(metav1.Object)
		if !ok {
			return "", fmt.Errorf("watching Pods: unexpected %T", event.Object)
		}
		version = described.GetResourceVersion()
		into.see(event, now)
	}
	return version, nil
}

func ofTasks() string { return labels.Set{v1.LabelApp: v1.LabelAppValue}.String() }

// await returns when all expected Pods run.
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
