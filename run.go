// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

// leaderTimeout is how long a leader may fail to renew its lease beyond the
// lease's end before /healthz says so.
const leaderTimeout = 20 * time.Second

// run connects to the API server and serves until ctx ends. The HTTP server
// and the informers run in every replica, so that a standby takes over with a
// warm cache; only the leader's workers change anything.
func run(ctx context.Context, opts *options) error {
	klog.FromContext(ctx).Info("Starting gpu-controller", "version", version)
	config, err := opts.restConfig()
	if err != nil {
		return err
	}
	clients, err := newClients(config)
	if err != nil {
		return err
	}
	controller, err := newController(ctx, clients, clock.RealClock{}, opts)
	if err != nil {
		return err
	}
	leaderHealth := leaderelection.NewLeaderHealthzAdaptor(leaderTimeout)
	server := newServer(opts.metricsBindAddress, controller.metrics, controller.ready, leaderHealth.Check)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.serve(ctx) })
	group.Go(func() error {
		if err := controller.startInformers(ctx); err != nil {
			return err
		}
		if !opts.leaderElection.LeaderElect {
			controller.work(ctx)
			return nil
		}
		return lead(ctx, clients.kube, opts, leaderHealth, controller.work)
	})
	return group.Wait()
}

// clients are the connections to the API server.
type clients struct {
	kube  kubernetes.Interface
	tasks clientset.Interface
}

func newClients(config *rest.Config) (clients, error) {
	tasks, err := clientset.NewForConfig(config)
	if err != nil {
		return clients{}, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf // built-in types only
	kube, err := kubernetes.NewForConfig(binary)
	return clients{kube: kube, tasks: tasks}, err
}

// lead waits until this process is the leader and then works until ctx ends or
// the lease is lost. The lease is given back only after the last worker has
// stopped, so that there are never two controllers at work.
func lead(ctx context.Context, client kubernetes.Interface, opts *options, health *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	identity, err := leaderIdentity()
	if err != nil {
		return err
	}
	settings := opts.leaderElection
	lock, err := resourcelock.New(settings.ResourceLock, settings.ResourceNamespace, settings.ResourceName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// electing outlives ctx until the workers are done.
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElecting()
	worked := make(chan struct{})
	notYetLeading := context.AfterFunc(ctx, stopElecting)

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   settings.LeaseDuration.Duration,
		RenewDeadline:   settings.RenewDeadline.Duration,
		RetryPeriod:     settings.RetryPeriod.Duration,
		WatchDog:        health,
		ReleaseOnCancel: true,
		Name:            settings.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer close(worked)
				if !notYetLeading() {
					return // told to stop in the same moment
				}
				defer stopElecting()
				working, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				work(working)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	elector.Run(electing)
	if ctx.Err() != nil {
		return nil
	}
	<-worked // never leave requests of a former leader in flight
	return errors.New("lost the leader's lease: another gpu-controller has taken over, or the API server can't be reached")
}
