// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
)

// whole hands out whole devices.
type whole struct{ visibility }

var _ offer = &whole{}

func (w *whole) toKubelet(list *listing) []*pluginapi.Device {
	devices := make([]*pluginapi.Device, len(list.devices))
	for place := range list.devices {
		device := &list.devices[place]
		devices[place] = &pluginapi.Device{ID: device.ID, Health: health(device), Topology: topology(device)}
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

// choose takes GPUs of which shares are in use only if there are too few others:
// the container can't be given those in the end.
func (w *whole) choose(list *listing, r *request, promised *promises, used inUse) ([]string, error) {
	unshared := r.without(func(id string) bool { return len(used[id].shares) > 0 })
	return list.topology.Choose(allocation.Request{
		Available: unshared.available, Must: unshared.must, Avoid: promised.ids(), Size: unshared.size,
	})
}

func (w *whole) check([]string) error { return nil }

func (w *whole) present(_ *listing, ids []string) *pluginapi.ContainerAllocateResponse {
	return w.show(ids)
}

// show makes devices visible to a container.
func (v *visibility) show(ids []string) *pluginapi.ContainerAllocateResponse {
	response := &pluginapi.ContainerAllocateResponse{}
	if v.envVar != "" {
		response.Envs = map[string]string{v.envVar: strings.Join(ids, ",")}
	}
	if v.cdiKind != "" {
		for _, id := range ids {
			response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: v.cdiKind + "=" + id})
		}
	}
	return response
}
