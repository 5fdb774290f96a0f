// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import "time"

// accessPatience is how long a driver must have been installed before a process that has no access
// to it is restarted: the node's container runtime is set up after it.
const accessPatience = time.Minute

// reachability decides when a process that has no access to the driver of the machine is restarted.
// A container that was created before driver and toolkit were installed never gets access.
type reachability struct {
	// since is when the driver was first found to be installed, but out of reach; zero if it is not.
	since time.Time
}

// outOfReach notes whether a driver is installed that is out of reach, and reports whether to restart.
func (r *reachability) outOfReach(installed bool, now time.Time) (restart bool) {
	switch {
	case !installed:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	return installed && now.Sub(r.since) >= accessPatience
}
