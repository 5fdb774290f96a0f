// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/leadership"
)

// version is set by the linker: see the Makefile.
var version = "unknown"

// run connects to the API server and serves until ctx ends. The HTTP server and the
// informers run in every replica, so that a standby takes over with warm caches; only the
// leader's workers write.
func run(ctx context.Context, opts *options) error {
	klog.FromContext(ctx).Info("Starting gpu-controller", "version", version)
	config, err := opts.restConfig()
	if err != nil {
		return err
	}
	guard := leadership.Always()
	if opts.leaderElection.LeaderElect {
		guard = leadership.NewGuard(clock.RealClock{})
	}
	clients, err := newClients(config, guard)
	if err != nil {
		return err
	}
	recorder, err := newRecorder(ctx, clients)
	if err != nil {
		return err
	}
	process, err := newProcess(ctx, clients, recorder, clock.RealClock{}, opts)
	if err != nil {
		return err
	}
	leaderHealth := leaderelection.NewLeaderHealthzAdaptor(leaderTimeout)
	server := newServer(opts.metricsBindAddress, process.metrics, &process.ready, leaderHealth.Check)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error {
		if !process.startInformers(ctx, reschedulerSyncTimeout) {
			return nil // ctx ended
		}
		if !opts.leaderElection.LeaderElect {
			process.work(ctx)
			return nil
		}
		return lead(ctx, clients.lease, guard, opts.election(), leaderHealth, process.work)
	})
	return group.Wait()
}
