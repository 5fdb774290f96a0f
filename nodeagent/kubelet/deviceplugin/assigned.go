// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import "k8s.io/apimachinery/pkg/util/sets"

// assignedDevices are the devices that the scheduler has chosen for other containers
// than the requester.
type assignedDevices struct {
	// whole are devices, shares the sum of the shares by GPU.
	whole  map[string]bool
	shares map[string]int
}

// assignedToOthers returns the devices that were chosen for other containers than the
// requester. An init container stands for its whole Pod, which reuses its devices.
func assignedToOthers(pending []PendingAllocation, requester *PendingAllocation) *assignedDevices {
	assigned := &assignedDevices{whole: map[string]bool{}, shares: map[string]int{}}
	for i := range pending {
		p := &pending[i]
		own := requester != nil && p.UID == requester.UID && p.Share == requester.Share &&
			(requester.Reusable || p.Container == requester.Container)
		if own {
			continue
		}
		for _, id := range p.IDs {
			switch {
			case !p.Share:
				assigned.whole[id] = true
			case !p.Reusable: // the other containers of its Pod reuse the shares
				assigned.shares[id] += p.Size
			}
		}
	}
	return assigned
}

// ids returns the devices that are assigned to others, whole or in part.
func (a *assignedDevices) ids() sets.Set[string] {
	return sets.KeySet(a.whole).Union(sets.KeySet(a.shares))
}
