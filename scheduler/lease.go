// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
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
	defaultLeaseName      = "gpu-scheduler"
	defaultLeaseNamespace = "gpu-controller-system"
	stockLeaseName        = "kube-scheduler"
)

// leaseWithoutElection returns the lease of a scheduler that was configured without
// leader election (leaderElect: false). Two such schedulers at once would give out the
// same GPUs, and nothing else would prevent that. The lease is short: without leader
// election, a scheduler that was killed should be back soon.
func leaseWithoutElection(kubeconfig *rest.Config, requested *componentbaseconfig.LeaderElectionConfiguration, identity string) (leaderelection.LeaderElectionConfig, error) {
	config := leaderelection.LeaderElectionConfig{
		LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond, Name: defaultLeaseName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
	namespace, name := leaseName(requested)
	var err error
	config.Lock, err = resourcelock.NewFromKubeconfig(cmp.Or(requested.ResourceLock, resourcelock.LeasesResourceLock), namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, kubeconfig, config.RenewDeadline)
	if err != nil {
		return config, fmt.Errorf("the lease %s/%s: %w", namespace, name, err)
	}
	return config, nil
}

// leaseName returns the namespace and the name of a scheduler's lease. What else is the scheduler's own is named after
// it.
func leaseName(requested *componentbaseconfig.LeaderElectionConfiguration) (namespace, name string) {
	if requested.ResourceName == "" || requested.ResourceName == stockLeaseName {
		return defaultLeaseNamespace, defaultLeaseName
	}
	return requested.ResourceNamespace, requested.ResourceName
}
