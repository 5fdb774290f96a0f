// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
)

// holders are the claims that hold devices.
type holders struct {
	// claims has what each holds, by its key, and the others the keys.
	claims   map[string]*holding
	ofDevice map[structured.DeviceID]map[string]struct{}
	ofPod    map[types.UID]map[string]struct{}
}

// holding is what a claim holds.
type holding struct {
	devices []heldDevice
	// pod is the Pod that uses the claim; empty if there is none, or others do.
	pod types.UID
}

type heldDevice struct {
	id structured.DeviceID
	// whole is true if nobody else may get a part of it.
	whole bool
}

func newHolders() holders {
	return holders{claims: map[string]*holding{}, ofDevice: map[structured.DeviceID]map[string]struct{}{}, ofPod: map[types.UID]map[string]struct{}{}}
}

// claimKey is the key of a claim that the API server has, or had.
func claimKey(namespace, name string) string { return namespace + "/" + name }

// pendingPrefix can't be the beginning of a claimKey.
const pendingPrefix = "/"

// pendingKey is the key of an allocation of which the API server is not told yet.
func pendingKey(claim types.UID) string { return pendingPrefix + string(claim) }

func isPending(key string) bool { return strings.HasPrefix(key, pendingPrefix) }

// holdingOf returns what a claim holds; nil for nothing. used says whether it matters who uses it.
func holdingOf(claim *resourcev1.ResourceClaim, used bool) *holding {
	if claim.Status.Allocation == nil {
		return nil
	}
	one := &holding{}
	if pod, only := userOf(claim); only && used {
		one.pod = pod
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if result.AdminAccess != nil && *result.AdminAccess {
			continue // others may have the device
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		one.devices = append(one.devices, heldDevice{id: id, whole: isWhole(result)})
	}
	if len(one.devices) == 0 {
		return nil
	}
	return one
}

func (h *holding) equals(other *holding) bool {
	if h == nil || other == nil {
		return h == other
	}
	return h.pod == other.pod && slices.Equal(h.devices, other.devices)
}

// holds reports whether any claim holds a device.
func (h *holders) holds(id structured.DeviceID) bool { return len(h.ofDevice[id]) > 0 }

// set replaces what a claim holds; nil is for nothing.
func (h *holders) set(key string, next *holding) {
	if before := h.claims[key]; before != nil {
		for i := range before.devices {
			drop(h.ofDevice, before.devices[i].id, key)
		}
		drop(h.ofPod, before.pod, key)
		delete(h.claims, key)
	}
	if next == nil || len(next.devices) == 0 {
		return
	}
	h.claims[key] = next
	for i := range next.devices {
		add(h.ofDevice, next.devices[i].id, key)
	}
	if next.pod != "" {
		add(h.ofPod, next.pod, key)
	}
}

func add[K comparable](index map[K]map[string]struct{}, of K, key string) {
	if index[of] == nil {
		index[of] = map[string]struct{}{}
	}
	index[of][key] = struct{}{}
}

func drop[K comparable](index map[K]map[string]struct{}, of K, key string) {
	if delete(index[of], key); len(index[of]) == 0 {
		delete(index, of)
	}
}
