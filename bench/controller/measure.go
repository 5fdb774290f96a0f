// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// result is what one program needs.
type result struct {
	name        string
	environment []string
	// filled is the time from the start of the process until its caches are filled, passed from
	// then until every task was handled once.
	filled, passed time.Duration
	heapMiB        float64
	peakMiB        float64
	// writes and reads are requests per minute while nothing changes.
	writes, reads float64
	// attempts and statuses are requests per minute while a quota refuses the Pods of all tasks.
	attempts, statuses float64
}

// measureSteady measures a cluster in which all tasks run.
func measureSteady(ctx context.Context, o *options, server *apiServer, path, dir string, r *result) (err error) {
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := server.writeKubeconfig(kubeconfig); err != nil {
		return err
	}
	begin := time.Now()
	p, err := startProgram(ctx, path, kubeconfig, r.environment, "--reschedule-period="+o.period.String())
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	filled, err := wait(ctx, "the caches are filled", func() bool {
		_, err := p.get(ctx, "/readyz")
		return err == nil
	})
	if err != nil {
		return err
	}
	passed, err := p.waitForSyncs(ctx, o.tasks)
	if err != nil {
		return err
	}
	r.filled, r.passed = filled.Sub(begin), passed.Sub(filled)
	if _, err := wait(ctx, "the first planning of moves", func() bool {
		metrics, err := p.metrics(ctx)
		return err == nil && metrics["gpu_controller_move_planning_duration_seconds"] > 0
	}); err != nil {
		return err
	}
	r.writes, r.reads, err = server.observe(ctx, o.window, func(request string) bool { return !strings.HasPrefix(request, "GET ") })
	if err != nil {
		return err
	}
	metrics, err := p.metrics(ctx)
	if err != nil {
		return err
	}
	r.heapMiB = metrics["go_memstats_heap_inuse_bytes"] / (1 << 20)
	r.peakMiB, err = p.peakMiB()
	return err
}

// waitForSyncs waits until so many tasks were handled, and returns when they were.
func (p *program) waitForSyncs(ctx context.Context, tasks int) (time.Time, error) {
	return wait(ctx, "every task was handled", func() bool {
		metrics, err := p.metrics(ctx)
		return err == nil && metrics["gpu_controller_sync_duration_seconds"] >= float64(tasks)
	})
}

// measureStorm measures a cluster in which a quota refuses the Pods of all tasks.
func measureStorm(ctx context.Context, o *options, path, dir string, r *result) (err error) {
	server := newAPIServer()
	defer server.Close()
	defer server.CloseClientConnections()
	if err := server.fillRefused(o.refused); err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig-of-storm")
	if err := server.writeKubeconfig(kubeconfig); err != nil {
		return err
	}
	p, err := startProgram(ctx, path, kubeconfig, r.environment)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	if _, err := wait(ctx, "every task was refused", func() bool { return server.counted()["POST pods"] >= o.refused }); err != nil {
		return err
	}
	// By then the time between attempts no longer grows.
	if _, _, err := server.observe(ctx, o.settle, func(string) bool { return true }); err != nil {
		return err
	}
	before := server.counted()
	attempts, _, err := server.observe(ctx, o.window, func(request string) bool { return request == "POST pods" })
	if err != nil {
		return err
	}
	r.attempts = attempts
	r.statuses = float64(server.counted()["PUT gputasks/status"]-before["PUT gputasks/status"]) / o.window.Minutes()
	return nil
}

// observe counts requests for a time, and returns how many of a kind there were per minute, and how
// many others.
func (s *apiServer) observe(ctx context.Context, window time.Duration, is func(request string) bool) (those, others float64, err error) {
	before := s.counted()
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-timer.C:
	}
	for request, count := range s.counted() {
		perMinute := float64(count-before[request]) / window.Minutes()
		if is(request) {
			those += perMinute
		} else {
			others += perMinute
		}
	}
	return those, others, nil
}
