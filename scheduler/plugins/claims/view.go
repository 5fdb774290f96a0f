// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"sync/atomic"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/planner"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// restriction is which devices are shown.
type restriction struct {
	// node is the only node whose devices matter; empty if all do.
	node string
	// only are the GPUs that may be allocated on their nodes; nil for all.
	only resourceclaims.Places
	// without are GPUs that may not be.
	without resourceclaims.Places
}

// observedHandle is a framework's handle that tells the planner of allocations.
type observedHandle struct {
	fwk.Handle
	shared *planner.Shared
}

// SharedDRAManager implements fwk.Handle.
func (h observedHandle) SharedDRAManager() fwk.SharedDRAManager {
	manager := h.Handle.SharedDRAManager()
	if manager == nil {
		return nil
	}
	return observedManager{manager, h.shared}
}

type observedManager struct {
	fwk.SharedDRAManager
	shared *planner.Shared
}

// ResourceClaims implements fwk.SharedDRAManager.
func (m observedManager) ResourceClaims() fwk.ResourceClaimTracker {
	return observedClaims{m.SharedDRAManager.ResourceClaims(), m.shared}
}

// observedClaims is kube-scheduler's view of claims, whose changes the planner is told of.
type observedClaims struct {
	fwk.ResourceClaimTracker
	shared *planner.Shared
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (c observedClaims) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	if err := c.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim); err != nil {
		return err
	}
	if plans := c.shared.Get(); plans != nil {
		plans.Devices().Allocated(claim)
		if c.GetPendingAllocation(uid) == nil { // another Pod that uses the claim was quicker
			plans.Devices().Settled(uid)
		}
	}
	return nil
}

// MaybeRemoveClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (c observedClaims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) (deleted bool) {
	deleted = c.ResourceClaimTracker.MaybeRemoveClaimPendingAllocation(uid, force)
	if plans := c.shared.Get(); plans != nil && deleted {
		plans.Devices().Settled(uid)
	}
	return deleted
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker.
func (c observedClaims) AssumeClaimAfterAPICall(claim *resourcev1.ResourceClaim) error {
	err := c.ResourceClaimTracker.AssumeClaimAfterAPICall(claim)
	if plans := c.shared.Get(); plans != nil && err == nil {
		plans.Devices().Assumed(claim.Namespace, claim.Name)
	}
	return err
}

// AssumedClaimRestore implements fwk.ResourceClaimTracker.
func (c observedClaims) AssumedClaimRestore(namespace, name string) {
	c.ResourceClaimTracker.AssumedClaimRestore(namespace, name)
	if plans := c.shared.Get(); plans != nil {
		plans.Devices().Assumed(namespace, name)
	}
}

// restrictedHandle is a framework's handle with a view of the devices.
type restrictedHandle struct {
	fwk.Handle
	view *view
}

// SharedDRAManager implements fwk.Handle.
func (h restrictedHandle) SharedDRAManager() fwk.SharedDRAManager { return h.view }

// ProfileName implements fwk.Handle. DynamicResources names an index of Pods after the profile,
// and two can't have the same name.
func (h restrictedHandle) ProfileName() string { return h.Handle.ProfileName() + "-restricted" }

// view is kube-scheduler's view of claims, classes and devices, with some of the devices.
type view struct {
	fwk.SharedDRAManager
	restriction atomic.Pointer[restriction]
}

func (v *view) set(r *restriction) { v.restriction.Store(r) }

// ResourceSlices implements fwk.SharedDRAManager.
func (v *view) ResourceSlices() fwk.ResourceSliceLister { return lister{v} }

type lister struct{ *view }

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (l lister) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	all, err := l.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	r := l.restriction.Load()
	if err != nil || r == nil {
		return all, err
	}
	allocated, err := l.allocated()
	if err != nil {
		return nil, err
	}
	if r.node != "" {
		all = resourceclaims.OnNode(all, r.node)
	}
	if r.only != nil {
		return resourceclaims.Only(all, r.only, allocated.Has), nil
	}
	return resourceclaims.Without(all, r.without, allocated.Has), nil
}

// tries is how often the allocated devices are looked at when they change at the same moment.
const tries = 100

// allocated returns the devices that are allocated as a whole.
func (l lister) allocated() (devices sets.Set[structured.DeviceID], err error) {
	for range tries {
		if devices, err = l.SharedDRAManager.ResourceClaims().ListAllAllocatedDevices(); err == nil {
			return devices, nil
		}
	}
	return nil, fmt.Errorf("devices of resource claims: %w", err)
}
