// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// allocator allocates the devices of a resource from its Pool: whole, or in shares.
type allocator interface {
	// advertise returns the devices to send to the kubelet.
	advertise(list *listing) []*pluginapi.Device
	// choose returns the best devices for a container if the scheduler chose none for
	// it, or none that are available.
	choose(list *listing, r *request, assigned *assignedDevices, used inUse) ([]string, error)
	// gpuOf returns the GPUs that the devices are parts of, by the devices' IDs; nil if they are
	// GPUs themselves, or shares of them.
	gpuOf() map[string]string
	// check returns why this combination of devices can't be allocated, whatever is in use.
	check(ids []string) error
	// response returns how a container gets access to its devices, which are in the
	// order of their indexes.
	response(list *listing, ids []string) *pluginapi.ContainerAllocateResponse
}

// visibility is how devices are made visible to a container.
type visibility struct {
	envVar  string
	cdiKind func() string // nil for none
}
