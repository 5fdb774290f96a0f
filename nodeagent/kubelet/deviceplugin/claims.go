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

// Claims knows the containers that the kubelet has not given their devices yet,
// and what the scheduler has chosen for them.
type Claims interface {
	// Await returns when a container is known that waits for so many devices of a
	// resource, or after a moment.
	Await(ctx context.Context, resource string, size int)
	// Pending returns who waits for devices of a resource, the oldest first.
	Pending(resource string) []Claim
	// Taken is told which devices the kubelet has given to a container.
	Taken(resource string, ids []string)
}

// Claim is a container that waits for devices of one resource.
type Claim struct {
	Pod       types.NamespacedName
	UID       types.UID
	Container string
	// Size is how many devices it waits for.
	Size int
	// Share is true if the devices are shares of one GPU.
	Share bool
	// IDs are the devices that were chosen for it, sorted; none if nothing was. Of
	// shares it is the GPU alone: they are all alike.
	IDs []string
	// Lends is true for an init container that ends before the others start: the
	// kubelet gives its devices to them.
	Lends bool
}

// PodClaims finds claims among the Pods of a node.
//
// The kubelet does not say for which Pod it asks, nor to which Pod it gives
// devices. It serves Pods in the order in which they come, so it asks for the
// oldest claim of that size, and whatever devices it then takes, they settle that
// claim: else a claim that the kubelet did not honour would wait for ever, and be
// given to the next Pod. If the order was another one, Pods of equal size have
// swapped their devices, which harms nobody: the annotations are corrected.
type PodClaims struct {
	pods  func() []*corev1.Pod
	clock clock.Clock
	// shares are the resources whose devices are shares of GPUs.
	shares []string

	mu sync.Mutex
	// taken are the claims that are settled. A Pod's status says so too, but
	// later.
	taken map[types.UID]map[claimKey]bool
	// held is what containers had when the kubelet was last asked.
	held map[place][]string
	// early are allocations that no Pod is known for yet, the oldest first.
	early []*early
}

type claimKey struct{ container, resource string }

// place is where devices of a resource can be. Two Pods of a name are one place.
type place struct {
	pod types.NamespacedName
	claimKey
}

var _ Claims = &PodClaims{}

// NewPodClaims returns the claims of the Pods that are bound to this node, which
// the function returns from memory. The devices of some resources are shares of
// GPUs.
func NewPodClaims(pods func() []*corev1.Pod, c clock.Clock, shares ...string) *PodClaims {
	return &PodClaims{pods: pods, clock: c, shares: shares, taken: map[types.UID]map[claimKey]bool{}}
}

const (
	// patience is how long the kubelet waits for an answer about a Pod that we
	// have not heard of. It hears of Pods from the API server as we do, but is
	// sometimes faster. A static Pod is known to nobody else for a while.
	patience  = 500 * time.Millisecond
	lookEvery = 5 * time.Millisecond
)

// Await implements Claims.
func (c *PodClaims) Await(ctx context.Context, resource string, size int) {
	isOfSize := func(claim Claim) bool { return claim.Size == size }
	deadline := c.clock.Now().Add(patience)
	for !slices.ContainsFunc(c.Pending(resource), isOfSize) && c.clock.Now().Before(deadline) {
		timer := c.clock.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// Pending implements Claims.
func (c *PodClaims) Pending(resource string) []Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending(resource)
}

// Taken implements Claims.
func (c *PodClaims) Taken(resource string, ids []string) {
	ids = slices.Sorted(slices.Values(ids))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetOthers()
	claims := c.pending(resource)
	if number := settledBy(claims, ids); number >= 0 {
		c.settle(&claims[number], resource)
		return
	}
	c.remember(resource, ids)
}

// settledBy returns the number of the claim that devices settle: the one to just
// these devices, or the oldest one of that size; -1 if there is none.
func settledBy(claims []Claim, ids []string) int {
	exactly := slices.IndexFunc(claims, func(claim Claim) bool { return claim.isHeld(ids) })
	if exactly >= 0 {
		return exactly
	}
	return slices.IndexFunc(claims, func(claim Claim) bool { return claim.Size == len(ids) })
}

// Observe learns from the kubelet which containers have devices already, for
// example since before this process came. It does not learn that a claim is
// settled with other devices: they may be those of an older Pod of the same name.
// The status of the Pod tells soon.
func (c *PodClaims) Observe(allocations []podresources.Allocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(map[place][]string, len(allocations))
	for i := range allocations {
		c.held[placeOf(&allocations[i])] = allocations[i].DeviceIDs
	}
	c.attribute(allocations)
}

func placeOf(a *podresources.Allocation) place {
	return place{types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}, claimKey{a.Container, a.Resource}}
}

// pending returns the claims that nothing is known to have settled.
func (c *PodClaims) pending(resource string) []Claim {
	var claims []Claim
	for _, pod := range waitingPods(c.pods()) {
		for _, claim := range claimsOf(pod, resource, slices.Contains(c.shares, resource)) {
			key := claimKey{claim.Container, resource}
			if !c.taken[pod.UID][key] && !claim.isHeld(c.held[place{claim.Pod, key}]) {
				claims = append(claims, claim)
			}
		}
	}
	return c.settleEarly(claims, resource)
}

func (c *PodClaims) settle(claim *Claim, resource string) {
	if c.taken[claim.UID] == nil {
		c.taken[claim.UID] = map[claimKey]bool{}
	}
	c.taken[claim.UID][claimKey{claim.Container, resource}] = true
}

// forgetOthers forgets Pods that are gone.
func (c *PodClaims) forgetOthers() {
	there := map[types.UID]bool{}
	for _, pod := range c.pods() {
		there[pod.UID] = true
	}
	for uid := range c.taken {
		if !there[uid] {
			delete(c.taken, uid)
		}
	}
}
