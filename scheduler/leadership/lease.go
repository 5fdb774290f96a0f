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

// Where the lease is if the configuration does not say it. kube-scheduler's own lease
// is never taken.
const (
	defaultName      = "gpu-scheduler"
	defaultNamespace = "gpu-controller-system"
	stockName        = "kube-scheduler"
)

// ErrSuperseded says that another process was the leader after this one, which knows
// nothing of what that has done.
var ErrSuperseded = errors.New("another gpu-scheduler was the leader meanwhile")

// LeaseWithoutElection returns the lease of a scheduler that was configured without
// leader election (leaderElect: false). Two of them at once would give GPUs twice, and
// nothing else would keep them apart. It is a short one: whoever does without leader
// election wants a killed scheduler to be back soon.
func LeaseWithoutElection(kubeconfig *rest.Config, asked *componentbaseconfig.LeaderElectionConfiguration, identity string) (leaderelection.LeaderElectionConfig, error) {
	config := leaderelection.LeaderElectionConfig{
		LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond, Name: defaultName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
	name, namespace := asked.ResourceName, asked.ResourceNamespace
	if name == "" || name == stockName {
		name, namespace = defaultName, defaultNamespace
	}
	var err error
	config.Lock, err = resourcelock.NewFromKubeconfig(cmp.Or(asked.ResourceLock, resourcelock.LeasesResourceLock), namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, kubeconfig, config.RenewDeadline)
	if err != nil {
		return config, fmt.Errorf("the lease %s/%s: %w", namespace, name, err)
	}
	return config, nil
}

// Hold competes for a lease, whose lock the Guard watches, until ctx ends. A process that
// could not renew it in time, and gets it back before anybody else has had it, goes on;
// otherwise the error is ErrSuperseded.
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
