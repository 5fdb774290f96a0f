// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// early is an allocation to a Pod that the kubelet has heard of before we have.
// Until its Pod is known it must be remembered: that Pod would wait for ever, and
// what was chosen for it would be given to the next one.
type early struct {
	resource string
	ids      []string
	// owner has the devices; nil until the kubelet has told.
	owner *place
	// unlisted counts how often the kubelet has told of nobody who has them.
	unlisted int
}

const (
	// maxEarly bounds what is remembered: a node has no more Pods in a moment.
	maxEarly = 256
	// maxUnlisted is how often the kubelet may not list an allocation. Once is
	// common, since it lists it later than it makes it. It never lists those to
	// init containers and to Pods that it refuses in the end.
	maxUnlisted = 1
)

func (c *PodClaims) remember(resource string, ids []string) {
	c.early = append(c.early, &early{resource: resource, ids: ids})
	c.early = c.early[max(0, len(c.early)-maxEarly):]
}

// settleEarly settles claims of Pods that have become known after they got their
// devices, and returns the others.
func (c *PodClaims) settleEarly(claims []Claim, resource string) []Claim {
	c.early = slices.DeleteFunc(c.early, func(e *early) bool {
		if e.resource != resource {
			return false
		}
		number := e.settles(claims)
		if number < 0 {
			return false
		}
		c.settle(&claims[number], resource)
		claims = slices.Delete(claims, number, number+1)
		return true
	})
	return claims
}

// settles returns the number of the claim that the allocation settles; -1 if
// there is none.
func (e *early) settles(claims []Claim) int {
	if e.owner == nil {
		return settledBy(claims, e.ids)
	}
	return slices.IndexFunc(claims, func(claim Claim) bool {
		return place{claim.Pod, claimKey{claim.Container, e.resource}} == *e.owner
	})
}

// attribute finds out to whom devices were given early, and forgets allocations
// that have ended or are not early any more.
func (c *PodClaims) attribute(allocations []podresources.Allocation) {
	for _, e := range c.early {
		number := slices.IndexFunc(allocations, func(a podresources.Allocation) bool {
			return a.Resource == e.resource && slices.Equal(a.DeviceIDs, e.ids)
		})
		if number < 0 {
			e.unlisted++
			continue
		}
		owner := placeOf(&allocations[number])
		e.owner, e.unlisted = &owner, 0
	}
	for _, e := range slices.Clone(c.early) {
		c.pending(e.resource) // settles what it can
	}
	pods := c.pods()
	c.early = slices.DeleteFunc(c.early, func(e *early) bool {
		return e.unlisted > maxUnlisted || e.owner != nil && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			return pod.Namespace == e.owner.pod.Namespace && pod.Name == e.owner.pod.Name
		})
	})
}
