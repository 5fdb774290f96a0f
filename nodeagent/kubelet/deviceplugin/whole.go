// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
)

// whole allocates whole devices.
type whole struct{ visibility }

var _ allocator = &whole{}

func (w *whole) advertise(list *listing) []*pluginapi.Device {
	devices := make([]*pluginapi.Device, len(list.devices))
	for i := range list.devices {
		device := &list.devices[i]
		devices[i] = &pluginapi.Device{ID: device.ID, Health: health(device), Topology: topology(device)}
	}
	return devices
}

func health(device *Device) string {
	if device.Healthy {
		return pluginapi.Healthy
	}
	return pluginapi.Unhealthy
}

func topology(device *Device) *pluginapi.TopologyInfo {
	if device.NUMANode == allocation.Unknown {
		return nil
	}
	return &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(device.NUMANode)}}}
}

// choose takes GPUs that are in use as another resource only if there are too few others:
// Allocate would refuse them.
func (w *whole) choose(list *listing, r *request, assigned *assignedDevices, used inUse) ([]string, error) {
	unclaimed := r.without(func(id string) bool { return used.claimed(id, true) })
	return list.topology.Choose(allocation.Request{
		Available: unclaimed.available, Must: unclaimed.must, Avoid: assigned.ids().UnsortedList(), Size: unclaimed.size,
	})
}

func (w *whole) gpuOf() map[string]string { return nil }

func (w *whole) check([]string) error { return nil }

func (w *whole) response(_ *listing, ids []string) *pluginapi.ContainerAllocateResponse {
	return w.expose(ids)
}

// expose makes devices visible to a container.
func (v *visibility) expose(ids []string) *pluginapi.ContainerAllocateResponse {
	response := &pluginapi.ContainerAllocateResponse{}
	kind := ""
	if v.cdiKind != nil {
		kind = v.cdiKind()
	}
	switch {
	case kind != "":
		for _, id := range ids {
			response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: kind + "=" + id})
		}
	case v.envVar != "":
		response.Envs = map[string]string{v.envVar: strings.Join(ids, ",")}
	}
	return response
}
