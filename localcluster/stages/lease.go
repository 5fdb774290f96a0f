// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import "time"

const (
	shortestLease = 8 * time.Second
	// nodesPerLeaseSecond bounds the work: KWOK renews a lease four times in its
	// duration, so with 25 nodes a second there are 100 renewals a second. With 1,000 nodes
	// the leases are those of kubelets, 40 s. With more they are longer: 500 renewals a second, as 5,000
	// kubelets send them, are more than two cores do beside their other work, and nodes would
	// seem to be lost all the time.
	nodesPerLeaseSecond = 25
)

// LeaseDuration returns the duration of a node's lease. With short leases a
// silent node is detected soon, but they have to be renewed often.
func LeaseDuration(nodes int) time.Duration {
	wanted := time.Duration(nodes/nodesPerLeaseSecond) * time.Second
	return max(wanted, shortestLease)
}

// GracePeriod returns how long a node may be silent before it counts as lost.
// A lease is renewed after a quarter of its duration, which leaves three retries.
func GracePeriod(nodes int) time.Duration { return LeaseDuration(nodes) + LeaseDuration(nodes)/4 }
