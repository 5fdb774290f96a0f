// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
)

// The lease to use if the configuration names none. kube-scheduler's own lease is never
// used.
const (
	defaultName      = "gpu-scheduler"
	defaultNamespace = "gpu-controller-system"
	stockName        = "kube-scheduler"
)

// ErrSuperseded means that another process was the leader after this one, which does not
// know what that process has done.
var ErrSuperseded = errors.New("another gpu-scheduler was the leader meanwhile")

// LeaseWithoutElection returns the lease of a scheduler that was configured without
// leader election (leaderElect: false). Two such schedulers at once would give out the
// same GPUs, and nothing else would prevent that. The lease is short: without leader
// election, a scheduler that was killed should be back soon.
func LeaseWithoutElection(kubeconfig *rest.Config, requested *componentbaseconfig.LeaderElectionConfiguration, identity string) (leaderelection.LeaderElectionConfig, error) {
	config := leaderelection.LeaderElectionConfig{
		LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond, Name: defaultName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
	namespace, name := NameOf(requested)
	var err error
	config.Lock, err = resourcelock.NewFromKubeconfig(cmp.Or(requested.ResourceLock, resourcelock.LeasesResourceLock), namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, kubeconfig, config.RenewDeadline)
	if err != nil {
		return config, fmt.Errorf("the lease %s/%s: %w", namespace, name, err)
	}
	return config, nil
}

// NameOf returns the namespace and the name of a scheduler's lease. What else is the scheduler's own is named after it.
func NameOf(requested *componentbaseconfig.LeaderElectionConfiguration) (namespace, name string) {
	if requested.ResourceName == "" || requested.ResourceName == stockName {
		return defaultNamespace, defaultName
	}
	return requested.ResourceNamespace, requested.ResourceName
}

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
