// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Objects is how a Counter reads what is in the API server.
type Objects struct {
	Claim func(namespace, name string) (*resourcev1.ResourceClaim, error)
	Class func(name string) (*resourcev1.DeviceClass, error)
	// Owned returns the claims that were made for a Pod.
	Owned func(pod types.UID) []*resourcev1.ResourceClaim
}

// expressions is how many compiled CEL expressions a Counter keeps.
const expressions = 64

// Counter counts the whole GPUs that Pods ask for with resource claims. It is safe for
// concurrent use.
type Counter struct {
	objects Objects

	mu         sync.Mutex
	selections selections

	// resolving is held by Resolve, to which the rest belongs.
	resolving  sync.Mutex
	cache      *cel.Cache
	candidates candidates
}

// NewCounter returns a Counter.
func NewCounter(objects Objects) *Counter {
	return &Counter{
		objects: objects, selections: newSelections(),
		cache: cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: true}), candidates: newCandidates(),
	}
}

// GPUs returns how many whole GPUs a Pod without a node asks for with claims that were made from
// its own templates. It is 0 as well if which devices the claims get can only be decided by who
// allocates them: a claim that is shared with other Pods, alternatives, all devices of a kind, a
// part of a GPU, administrator access, or constraints between devices. Known is false while it is
// being found out what the claims select: Follow has been called for the Pod, and Resolve has not.
func (c *Counter) GPUs(pod *corev1.Pod) (count int, known bool) {
	for i := range pod.Spec.ResourceClaims {
		claim := c.claim(pod, &pod.Spec.ResourceClaims[i])
		if claim == nil {
			return 0, true
		}
		gpus, plain, known := c.count(claim)
		if !known || !plain {
			return 0, known
		}
		count += gpus
	}
	return count, true
}

// claim returns a claim of a Pod's own; nil if it is not that, or does not exist yet.
func (c *Counter) claim(pod *corev1.Pod, reference *corev1.PodResourceClaim) *resourcev1.ResourceClaim {
	name, own, err := resourceclaim.Name(pod, reference)
	if err != nil || name == nil || !own {
		return nil
	}
	claim, err := c.objects.Claim(pod.Namespace, *name)
	if err != nil || resourceclaim.IsForPod(pod, claim, false) != nil {
		return nil
	}
	return claim
}

// Missing reports whether a claim does not exist yet that will be made from a template of a Pod.
func (c *Counter) Missing(pod *corev1.Pod) bool {
	for i := range pod.Spec.ResourceClaims {
		if reference := &pod.Spec.ResourceClaims[i]; reference.ResourceClaimTemplateName != nil {
			name, _, err := resourceclaim.Name(pod, reference)
			if err != nil {
				return true // the Pod's status does not name it
			}
			if name == nil {
				continue // none is needed
			}
			if _, err := c.objects.Claim(pod.Namespace, *name); err != nil {
				return true
			}
		}
	}
	return false
}

// Stale returns what an interrupted attempt to place a Pod has left behind, given that the Pod has
// no node and none is being tried: allocations of claims of its own, and claims that kube-scheduler
// has made for its extended resources.
func (c *Counter) Stale(pod *corev1.Pod) (stale []*resourcev1.ResourceClaim) {
	for _, claim := range c.objects.Owned(pod.UID) {
		if claim.DeletionTimestamp == nil && (claim.Status.Allocation != nil || IsOfExtendedResource(claim)) {
			stale = append(stale, claim)
		}
	}
	return stale
}

// IsOfExtendedResource reports whether kube-scheduler has made a claim for the extended resources
// of a Pod.
func IsOfExtendedResource(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
}

// HasAllocation reports whether devices are allocated to any claim of a Pod, or to the one that
// kube-scheduler has made for its extended resources.
func (c *Counter) HasAllocation(pod *corev1.Pod) bool {
	if pod.Status.ExtendedResourceClaimStatus != nil {
		return true
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, err := c.objects.Claim(pod.Namespace, *name); err == nil && claim.Status.Allocation != nil {
			return true
		}
	}
	return false
}

// count counts the GPUs that a claim asks for. Plain is false if that is not all there is to it.
func (c *Counter) count(claim *resourcev1.ResourceClaim) (gpus int, plain, known bool) {
	for i := range claim.Spec.Devices.Requests {
		request := claim.Spec.Devices.Requests[i].Exactly
		if request == nil {
			return 0, false, true
		}
		found, known := c.selected(request)
		switch {
		case !known:
			return 0, false, false
		case found == selected{}:
			continue // other devices
		case found[partOfGPU] || !isCounted(request):
			return 0, false, true
		}
		gpus += int(max(1, request.Count))
	}
	return gpus, gpus == 0 || len(claim.Spec.Devices.Constraints) == 0, true
}

// isCounted reports whether a request is for a number of whole devices.
func isCounted(request *resourcev1.ExactDeviceRequest) bool {
	return (request.AllocationMode == "" || request.AllocationMode == resourcev1.DeviceAllocationModeExactCount) &&
		(request.AdminAccess == nil || !*request.AdminAccess) && request.Capacity == nil
}

// matches reports whether a device is what all of the selectors select. One that can't be
// evaluated selects nothing: the allocator will report it.
func (c *Counter) matches(ctx context.Context, slice *resourcev1.ResourceSlice, device *resourcev1.Device, selectors []resourcev1.DeviceSelector) bool {
	for i := range selectors {
		if selectors[i].CEL == nil {
			return false
		}
		compiled := c.cache.GetOrCompile(selectors[i].CEL.Expression)
		if compiled.Error != nil {
			return false
		}
		matches, _, err := compiled.DeviceMatches(ctx, cel.Device{
			Driver: slice.Spec.Driver, Attributes: device.Attributes, Capacity: device.Capacity, AllowMultipleAllocations: device.AllowMultipleAllocations,
		})
		if err != nil || !matches {
			return false
		}
	}
	return true
}
