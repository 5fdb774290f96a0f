// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offer is how a resource hands out the devices of its Pool: whole, or in shares.
type offer interface {
	// toKubelet is what the kubelet is told of.
	toKubelet(list *listing) []*pluginapi.Device
	// choose returns the devices that are best for a container for which nothing
	// was chosen that it can have.
	choose(list *listing, r *request, promised *promises, used inUse) ([]string, error)
	// check says why nobody can have just these devices, whoever uses what.
	check(ids []string) error
	// present says how a container gets devices, which are in their order.
	present(list *listing, ids []string) *pluginapi.ContainerAllocateResponse
}

// visibility is how a container is shown its devices.
type visibility struct{ envVar, cdiKind string }
