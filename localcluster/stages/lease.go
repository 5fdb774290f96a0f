// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import "time"

const (
	shortestLease = 8 * time.Second
	longestLease  = 40 * time.Second // the kubelet's own
	// nodesPerLeaseSecond bounds the work: KWOK renews a lease four times in its
	// duration, so with 25 nodes a second there are 100 renewals a second.
	nodesPerLeaseSecond = 25
)

// LeaseDuration returns how long a node's lease lasts. Short leases make a
// silent node known soon, but each node has to renew its own.
func LeaseDuration(nodes int) time.Duration {
	wanted := time.Duration(nodes/nodesPerLeaseSecond) * time.Second
	return min(max(wanted, shortestLease), longestLease)
}

// GracePeriod returns how long a node may be silent before it counts as lost.
// A lease is renewed after a quarter of its duration, so that is three chances.
func GracePeriod(nodes int) time.Duration { return LeaseDuration(nodes) + LeaseDuration(nodes)/4 }
