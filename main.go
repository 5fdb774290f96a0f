// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gpu-controller turns GPUTask objects into Pods and keeps their status up to date.
// See docs/architecture.md for its place among the other processes.
package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/pkg/program"
)

// version is set by the linker: see the Makefile.
var version = "unknown"

// leaderTimeout is how long after the lease has expired /healthz begins to fail for a leader that could not
// renew it.
const leaderTimeout = 20 * time.Second

func main() {
	opts := newOptions()
	os.Exit(program.Run("gpu-controller", func(ctx context.Context) error {
		return opts.Start(ctx, version, opts.flags(), os.Args[1:], opts.validate, func(ctx context.Context) error { return runController(ctx, opts) })
	}))
}

// runController connects to the API server and serves until ctx ends. The HTTP server and the
// informers run in every replica, so that a standby takes over with warm caches; only the
// leader's workers write.
func runController(ctx context.Context, opts *options) error {
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
	if clients.unreadable, err = findUnreadable(ctx, opts.namespace, clients.lease.AuthorizationV1().SelfSubjectAccessReviews()); err != nil {
		return err
	}
	if clients.unreadable.plans {
		opts.rescheduling.Period = 0
	}
	recorder, err := newRecorder(ctx, clients)
	if err != nil {
		return err
	}
	process, err := newProcess(ctx, clients, recorder, clock.RealClock{}, opts, opts.components())
	if err != nil {
		return err
	}
	leaderHealth := leaderelection.NewLeaderHealthzAdaptor(leaderTimeout)
	server, err := newServer(opts, config, process, leaderHealth.Check)
	if err != nil {
		return err
	}

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
		return guard.Lead(ctx, clients.lease, opts.election(), leaderHealth, process.work)
	})
	return group.Wait()
}

// newServer returns what serves metrics and health; alive is the leader election's health check. A standby serves, too,
// and so asks the API server of a configuration that is not only for the leader.
func newServer(opts *options, kube *rest.Config, process *process, alive endpoints.Check) (*endpoints.Server, error) {
	settings := endpoints.Settings{Options: opts.endpoints, Flag: "metrics-bind-address", Address: opts.metricsBindAddress, Kube: kube}
	return endpoints.New(settings, process.metrics.handler(), alive, func(*http.Request) error {
		if !process.ready.Load() {
			return errors.New("the caches have not synced yet")
		}
		return nil
	})
}
