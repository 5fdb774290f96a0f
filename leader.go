// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/identity"
)

const (
	// leaderTimeout is how long a leader may fail to renew its lease beyond the
	// lease's end before /healthz says so.
	leaderTimeout = 20 * time.Second
	// releaseTimeout bounds giving the lease back: whoever waits for it gets it
	// anyway when it has expired.
	releaseTimeout = 5 * time.Second
)

// lead waits until this process is the leader and then works until ctx ends or
// the lease is lost. It returns after the last worker has stopped. Only then is
// the lease given back, so that there are never two controllers at work; a
// lease that was lost is not given back at all, but left to expire.
func lead(ctx context.Context, client kubernetes.Interface, settings componentbaseconfig.LeaderElectionConfiguration, health *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	name, err := identity.New()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(settings.ResourceLock, settings.ResourceNamespace, settings.ResourceName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	// electing outlives ctx until the workers are done.
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopElecting()
	waiting := context.AfterFunc(ctx, stopElecting)
	worked := make(chan struct{})
	var began atomic.Bool

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: settings.LeaseDuration.Duration,
		RenewDeadline: settings.RenewDeadline.Duration,
		RetryPeriod:   settings.RetryPeriod.Duration,
		WatchDog:      health,
		Name:          settings.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				began.Store(true)
				defer close(worked)
				if !waiting() || leading.Err() != nil {
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
	health.SetLeaderElection(elector)
	elector.Run(electing)
	// If leading begins only now, its context has ended and nothing is done.
	if began.Load() {
		<-worked
	}
	if ctx.Err() == nil {
		return errors.New("lost the leader's lease: another gpu-controller has taken over, or the API server can't be reached")
	}
	release(context.WithoutCancel(ctx), lock, clock.RealClock{})
	return nil
}

// release gives the lease back if this process holds it. The elector's own way
// to do so would also give back a lease that was lost while workers still run.
func release(ctx context.Context, lock resourcelock.Interface, clock clock.PassiveClock) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != lock.Identity() {
		return // nothing to give back, or nobody to give it to: it expires
	}
	now := metav1.NewTime(clock.Now())
	err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
	if err != nil {
		klog.FromContext(ctx).Info("The lease could not be given back and will expire", "lease", lock.Describe(), "err", err)
	}
}
