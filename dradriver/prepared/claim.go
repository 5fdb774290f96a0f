// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prepared keeps which claims the driver has prepared, in a file that survives it, and
// writes what their containers get besides the GPUs.
package prepared

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Claim is a ResourceClaim as far as it concerns this driver on this node.
type Claim struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Devices   []Device  `json:"devices"`
}

// Device is a GPU that has been allocated to a claim, whole or a share of it.
type Device struct {
	// Name is the device's name in the ResourceSlice.
	Name string `json:"name"`
	// UUID is that of the GPU; empty before the device has been found on the node.
	UUID string `json:"uuid"`
	// Request of the claim that it was allocated for.
	Request string `json:"request"`
	// ShareID tells the shares of a device apart; nil for one that can't be shared.
	ShareID *types.UID `json:"shareID,omitempty"`
	// Percent is how much of the GPU was allocated: 100 for the whole.
	Percent int64 `json:"percent"`
	// Admin is true for access beside those who use the GPU, as to monitor it.
	Admin bool `json:"admin,omitempty"`
}

// Of returns what of a claim's allocation concerns this driver and this node. The GPUs have no
// UUIDs yet.
func Of(claim *resourceapi.ResourceClaim, node string) (Claim, error) {
	of := Claim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
	if claim.Status.Allocation == nil {
		return of, fmt.Errorf("ResourceClaim %s is not allocated", of)
	}
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		result := &results[i]
		if result.Driver != v1.DRADriver {
			continue
		}
		if result.Pool != node {
			return of, fmt.Errorf("ResourceClaim %s has a GPU of the pool %s, but this is node %s", of, result.Pool, node)
		}
		percent := percentOf(result)
		if percent < 1 || percent > share.PerGPU {
			return of, fmt.Errorf("ResourceClaim %s has %d %% of the GPU %s: a share is from 1 to %d %%", of, percent, result.Device, share.PerGPU)
		}
		of.Devices = append(of.Devices, Device{
			Name: result.Device, Request: result.Request, ShareID: result.ShareID, Percent: percent,
			Admin: result.AdminAccess != nil && *result.AdminAccess,
		})
	}
	return of, nil
}

// percentOf returns how much of its device a result has. A cluster without shares does not say.
func percentOf(result *resourceapi.DeviceRequestAllocationResult) int64 {
	if percent, found := result.ConsumedCapacity[devices.Percent]; found {
		return percent.Value()
	}
	return share.PerGPU
}

// String names the claim, for messages.
func (c Claim) String() string { return c.Namespace + "/" + c.Name }

// Same reports whether both are the same allocation: a claim may be allocated anew.
func (c Claim) Same(other Claim) bool {
	return c.UID == other.UID && slices.EqualFunc(c.Devices, other.Devices, func(a, b Device) bool {
		return a.Name == b.Name && a.Request == b.Request && a.Percent == b.Percent && a.Admin == b.Admin && shareID(a) == shareID(b)
	})
}

func shareID(d Device) types.UID {
	if d.ShareID == nil {
		return ""
	}
	return *d.ShareID
}

// Whole reports whether all of the GPU was allocated.
func (d *Device) Whole() bool { return d.Percent >= share.PerGPU }

// ConflictError is why a claim can't have its GPUs: others have too much of one of them.
type ConflictError struct {
	UUID string
	// With are the claims that have some of it.
	With []Claim
}

// Error implements error.
func (c *ConflictError) Error() string {
	names := make([]string, len(c.With))
	for i, claim := range c.With {
		names[i] = claim.String()
	}
	slices.Sort(names)
	return fmt.Sprintf("GPU %s has been given to ResourceClaim %s, which has not been released yet", c.UUID, strings.Join(names, " and "))
}

// FindConflict returns the first GPU of which a claim and the others would have more than all;
// nil if there is none. A claim's own earlier allocation does not count.
func FindConflict(claim Claim, others []Claim) *ConflictError {
	for _, device := range claim.Devices {
		if device.Admin {
			continue
		}
		total := claim.percentOf(device.UUID)
		conflict := &ConflictError{UUID: device.UUID}
		for _, other := range others {
			if percent := other.percentOf(device.UUID); percent > 0 && other.UID != claim.UID {
				total += percent
				conflict.With = append(conflict.With, other)
			}
		}
		if total > share.PerGPU && len(conflict.With) > 0 {
			return conflict
		}
	}
	return nil
}

// percentOf returns how much of a GPU the claim has.
func (c Claim) percentOf(uuid string) (percent int64) {
	for _, device := range c.Devices {
		if device.UUID == uuid && !device.Admin {
			percent += device.Percent
		}
	}
	return percent
}
