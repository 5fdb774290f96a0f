// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// AllocationTracker tracks the allocations that the kubelet has still to make, and the
// devices that the scheduler has chosen for them.
type AllocationTracker interface {
	// Await waits until an allocation of this many devices of a resource is pending,
	// or a timeout.
	Await(ctx context.Context, resource string, size int)
	// Pending returns the pending allocations of a resource, the oldest first.
	Pending(resource string) []PendingAllocation
	// Allocated records the devices that the kubelet has allocated to a container.
	Allocated(resource string, ids []string)
}

// PendingAllocation is an allocation of one resource that a container waits for.
type PendingAllocation struct {
	Pod       types.NamespacedName
	UID       types.UID
	Container string
	// Size is the number of devices that the container requests.
	Size int
	// Share is true if the devices are shares of one GPU.
	Share bool
	// IDs are the devices that the scheduler has chosen, sorted; empty if it has chosen
	// none. For shares it is the GPU alone: they are all alike.
	IDs []string
	// Reusable is true for an init container that ends before the others start: the
	// kubelet reuses its devices for them.
	Reusable bool
}

// PodAllocationTracker finds pending allocations among the Pods of a node.
//
// The kubelet's calls name no Pod. It admits Pods in the order in which they arrive, so
// a call is taken to be for the oldest pending allocation of its size, which ends with
// whatever devices the kubelet then allocates: else one whose choice the kubelet did not
// follow would be pending forever, and its devices would be allocated to the next Pod.
// If the order was another one, Pods of equal size have swapped their devices, which is
// harmless: the annotations are corrected.
type PodAllocationTracker struct {
	pods  func() []*corev1.Pod
	clock clock.Clock
	// shares are the resources whose devices are shares of GPUs.
	shares []string

	mu sync.Mutex
	// allocated are the allocations that have been made. A Pod's status shows it too,
	// but later.
	allocated map[types.UID]map[containerResource]bool
	// held is the devices that containers had in the kubelet's last list.
	held map[allocationKey][]string
	// unmatched are allocations that match no known Pod yet, the oldest first.
	unmatched []*unmatchedAllocation
}

type containerResource struct{ container, resource string }

// allocationKey identifies an allocation. Two Pods of the same name share a key.
type allocationKey struct {
	pod types.NamespacedName
	containerResource
}

var _ AllocationTracker = &PodAllocationTracker{}

// NewPodAllocationTracker returns a tracker for the Pods that are bound to this node,
// which the function returns from a cache. The devices of the resources in shares are
// shares of GPUs.
func NewPodAllocationTracker(pods func() []*corev1.Pod, c clock.Clock, shares ...string) *PodAllocationTracker {
	return &PodAllocationTracker{pods: pods, clock: c, shares: shares, allocated: map[types.UID]map[containerResource]bool{}}
}

const (
	// awaitTimeout bounds how long a call of the kubelet waits for a Pod that is not in
	// our cache yet. The kubelet watches the API server as we do, but is sometimes
	// faster. A static Pod is known only to the kubelet for a while.
	awaitTimeout  = 500 * time.Millisecond
	awaitInterval = 5 * time.Millisecond
)

// Await implements AllocationTracker.
func (t *PodAllocationTracker) Await(ctx context.Context, resource string, size int) {
	isOfSize := func(p PendingAllocation) bool { return p.Size == size }
	deadline := t.clock.Now().Add(awaitTimeout)
	for !slices.ContainsFunc(t.Pending(resource), isOfSize) && t.clock.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return
		case <-t.clock.After(awaitInterval):
		}
	}
}

// Pending implements AllocationTracker.
func (t *PodAllocationTracker) Pending(resource string) []PendingAllocation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending(resource)
}

// Allocated implements AllocationTracker.
func (t *PodAllocationTracker) Allocated(resource string, ids []string) {
	ids = slices.Sorted(slices.Values(ids))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetDeletedPods()
	pending := t.pending(resource)
	if i := matchDevices(pending, ids); i >= 0 {
		t.markAllocated(&pending[i], resource)
		return
	}
	t.addUnmatched(resource, ids)
}

// matchDevices returns the index of the pending allocation that devices were allocated
// for: the one they were chosen for, or else the oldest one of that size; -1 if there is
// none.
func matchDevices(pending []PendingAllocation, ids []string) int {
	exact := slices.IndexFunc(pending, func(p PendingAllocation) bool { return p.isMetBy(ids) })
	if exact >= 0 {
		return exact
	}
	return slices.IndexFunc(pending, func(p PendingAllocation) bool { return p.Size == len(ids) })
}

// Observe takes over the kubelet's list of allocations, which includes those made before
// this process started. Devices other than the chosen ones do not end a pending
// allocation here: they may be those of an older Pod of the same name. The Pod's status
// shows soon whether they are its own.
func (t *PodAllocationTracker) Observe(allocations []podresources.Allocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = make(map[allocationKey][]string, len(allocations))
	for i := range allocations {
		t.held[keyOf(&allocations[i])] = allocations[i].DeviceIDs
	}
	t.resolveUnmatched(allocations)
}

func keyOf(a *podresources.Allocation) allocationKey {
	return allocationKey{types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}, containerResource{a.Container, a.Resource}}
}

// pending returns the allocations that are not known to have been made.
func (t *PodAllocationTracker) pending(resource string) []PendingAllocation {
	var pending []PendingAllocation
	for _, pod := range pendingPods(t.pods()) {
		for _, p := range pendingAllocationsOf(pod, resource, slices.Contains(t.shares, resource)) {
			key := containerResource{p.Container, resource}
			if !t.allocated[pod.UID][key] && !p.isMetBy(t.held[allocationKey{p.Pod, key}]) {
				pending = append(pending, p)
			}
		}
	}
	return t.matchUnmatched(pending, resource)
}

func (t *PodAllocationTracker) markAllocated(p *PendingAllocation, resource string) {
	if t.allocated[p.UID] == nil {
		t.allocated[p.UID] = map[containerResource]bool{}
	}
	t.allocated[p.UID][containerResource{p.Container, resource}] = true
}

// forgetDeletedPods drops what is recorded of Pods that no longer exist.
func (t *PodAllocationTracker) forgetDeletedPods() {
	existing := map[types.UID]bool{}
	for _, pod := range t.pods() {
		existing[pod.UID] = true
	}
	for uid := range t.allocated {
		if !existing[uid] {
			delete(t.allocated, uid)
		}
	}
}
