// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// unmatchedAllocation is an allocation to a Pod that is not in our informer's cache yet.
// It is remembered until the Pod appears there: the Pod would otherwise be pending for
// ever, and the devices chosen for it would be allocated to the next one.
type unmatchedAllocation struct {
	resource string
	ids      []string
	// owner has the devices; nil until the kubelet has listed the allocation.
	owner *allocationKey
	// unlisted counts the latest lists of the kubelet that lack the allocation.
	unlisted int
}

const (
	// maxUnmatched bounds what is remembered: no more Pods start on a node at once.
	maxUnmatched = 256
	// maxUnlisted is how many lists in a row may lack an allocation. One often does,
	// since the kubelet lists an allocation some time after making it. It never lists
	// those of init containers and of Pods that it rejects in the end.
	maxUnlisted = 1
)

func (t *PodAllocationTracker) addUnmatched(resource string, ids []string) {
	t.unmatched = append(t.unmatched, &unmatchedAllocation{resource: resource, ids: ids})
	t.unmatched = t.unmatched[max(0, len(t.unmatched)-maxUnmatched):]
}

// matchUnmatched removes the pending allocations that earlier unmatched ones were made
// for, and returns the rest.
func (t *PodAllocationTracker) matchUnmatched(pending []PendingAllocation, resource string) []PendingAllocation {
	t.unmatched = slices.DeleteFunc(t.unmatched, func(u *unmatchedAllocation) bool {
		if u.resource != resource {
			return false
		}
		i := u.match(pending)
		if i < 0 {
			return false
		}
		t.markAllocated(&pending[i], resource)
		pending = slices.Delete(pending, i, i+1)
		return true
	})
	return pending
}

// match returns the index of the pending allocation that this one was made for; -1 if
// there is none.
func (u *unmatchedAllocation) match(pending []PendingAllocation) int {
	if u.owner == nil {
		return matchDevices(pending, u.ids)
	}
	return slices.IndexFunc(pending, func(p PendingAllocation) bool {
		return allocationKey{p.Pod, containerResource{p.Container, u.resource}} == *u.owner
	})
}

// resolveUnmatched takes the owners of unmatched allocations from the kubelet's list,
// and forgets allocations that have ended or whose Pod is known by now.
func (t *PodAllocationTracker) resolveUnmatched(allocations []podresources.Allocation) {
	for _, u := range t.unmatched {
		i := slices.IndexFunc(allocations, func(a podresources.Allocation) bool {
			return a.Resource == u.resource && slices.Equal(a.DeviceIDs, u.ids)
		})
		if i < 0 {
			u.unlisted++
			continue
		}
		owner := keyOf(&allocations[i])
		u.owner, u.unlisted = &owner, 0
	}
	for _, u := range slices.Clone(t.unmatched) {
		t.pending(u.resource) // matches what it can
	}
	pods := t.pods()
	t.unmatched = slices.DeleteFunc(t.unmatched, func(u *unmatchedAllocation) bool {
		return u.unlisted > maxUnlisted || u.owner != nil && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return pod.Namespace == u.owner.pod.Namespace && pod.Name == u.owner.pod.Name
		})
	})
}
