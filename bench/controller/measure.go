// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
	// writes and reads are requests per minute while nothing changes, restCores how many cores the program uses then.
	writes, reads, restCores float64
	// churnCores is how many cores the program uses while churned tasks per second come and go, and churnWrites how
	// many requests it sends for each of them.
	churnCores, churned, churnWrites float64
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
	r.restCores, err = p.cores(func() error {
		r.writes, r.reads, err = server.observe(ctx, o.window, isWrite)
		return err
	})
	if err != nil {
		return err
	}
	if err := measureChurn(ctx, o, server, p, r); err != nil {
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

func isWrite(request string) bool { return !strings.HasPrefix(request, "GET ") }

// measureChurn measures while more tasks come, run, and are deleted when they have ended.
func measureChurn(ctx context.Context, o *options, server *apiServer, p *program, r *result) error {
	work := newChurn(server, o.nodes)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- work.run(ctx, o.rate) }()
	// Until as many go as come.
	if _, err := wait(ctx, "the first tasks of the churn are gone", func() bool { return work.gone() > 0 }); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	before, writes := work.gone(), 0.0
	var err error
	r.churnCores, err = p.cores(func() error {
		writes, _, err = server.observe(ctx, o.window, isWrite)
		return err
	})
	if err != nil {
		return err
	}
	gone := float64(work.gone() - before)
	r.churned, r.churnWrites = gone/o.window.Seconds(), writes*o.window.Minutes()/gone
	cancel()
	err = <-failed
	work.deleteAll() // the next program finds the cluster as it was
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
