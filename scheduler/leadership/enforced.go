// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
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

// Enforced returns a leader election for a scheduler that was configured without one
// (leaderElect: false). Two of them at once would give GPUs twice, and nothing else
// would keep them apart, so there is a lease all the same. It is a short one: whoever
// does without leader election wants a killed scheduler to be back soon.
func Enforced(kubeconfig *rest.Config, asked *componentbaseconfig.LeaderElectionConfiguration, identity string) (*leaderelection.LeaderElectionConfig, error) {
	const lease, renew, retry = 4 * time.Second, 3 * time.Second, 500 * time.Millisecond
	name, namespace := asked.ResourceName, asked.ResourceNamespace
	if name == stockName || name == "" {
		name, namespace = defaultName, defaultNamespace
	}
	lock, err := resourcelock.NewFromKubeconfig(cmp.Or(asked.ResourceLock, resourcelock.LeasesResourceLock), namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, kubeconfig, renew)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: lease, RenewDeadline: renew, RetryPeriod: retry, ReleaseOnCancel: true, Name: defaultName,
	}, nil
}

// NewIdentity returns a name for this process that none bears before or after it.
func NewIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("leader election needs a host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}
