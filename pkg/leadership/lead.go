// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

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

// releaseTimeout bounds the release of the lease: if it fails, another candidate acquires the lease once it
// has expired.
const releaseTimeout = 5 * time.Second

// Lead waits until this process is the leader and then works until ctx ends or the lease is
// lost. It returns after the last worker has stopped. Only then is the lease released; a lost lease
// is not released but left to expire. The guard, through which all writes go, gives them up before that,
// so that two leaders never send writes at the same time.
func (g *Guard) Lead(ctx context.Context, client kubernetes.Interface, settings componentbaseconfig.LeaderElectionConfiguration, health *leaderelection.HealthzAdaptor, work func(context.Context)) error {
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
	keepElecting := context.AfterFunc(ctx, stopElecting)
	workDone := make(chan struct{})
	var started atomic.Bool

	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          g.Watch(lock, settings.RenewDeadline.Duration),
		LeaseDuration: settings.LeaseDuration.Duration,
		RenewDeadline: settings.RenewDeadline.Duration,
		RetryPeriod:   settings.RetryPeriod.Duration,
		WatchDog:      health,
		Name:          settings.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				defer close(workDone)
				if !keepElecting() || leading.Err() != nil {
					return // ctx ended at the same moment
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
	// If OnStartedLeading is called only now, its context has ended and no work begins.
	if started.Load() {
		<-workDone
	}
	if ctx.Err() == nil {
		return errors.New("lost the leader's lease: another process has taken over, or the API server can't be reached")
	}
	release(context.WithoutCancel(ctx), lock, clock.RealClock{})
	return nil
}

// release releases the lease if this process holds it. The elector's ReleaseOnCancel would
// also release a lost lease while workers are still running.
func release(ctx context.Context, lock resourcelock.Interface, clock clock.PassiveClock) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != lock.Identity() {
		return // nothing to release, or the API server does not answer: the lease expires
	}
	now := metav1.NewTime(clock.Now())
	err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
	if err != nil {
		klog.FromContext(ctx).Info("Could not release the lease, it will expire", "lease", lock.Describe(), "err", err)
	}
}

// ErrSuperseded means that another process was the leader after this one, which does not
// know what that process has done.
var ErrSuperseded = errors.New("another process was the leader meanwhile")

// Hold competes for a lease, whose lock the Guard watches, until ctx ends. A process that
// failed to renew it in time, and gets it back before any other process has held it,
// continues; otherwise the error is ErrSuperseded.
func (g *Guard) Hold(ctx context.Context, config leaderelection.LeaderElectionConfig) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			return fmt.Errorf("leader election: %w", err)
		}
		if g.hold(ctx, elector); isClosed(g.superseded) {
			return ErrSuperseded
		}
	}
	return nil
}

// hold returns when the lease is lost.
func (g *Guard) hold(ctx context.Context, elector *leaderelection.LeaderElector) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-g.superseded:
			cancel()
		}
	}()
	elector.Run(ctx)
}
