// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// migPlugins has the device plugins of MIG slices, one for each profile. They come into being
// when the first slice of a profile does, or if a container has one. A profile of which there is
// no slice any more keeps its plugin, without devices, so that the kubelet shows 0 of them; the
// next run of the agent has none.
type migPlugins struct {
	// config is that of all plugins but for the resource and the pool.
	config deviceplugin.Config
	// available reports whether containers can get a device.
	available func(uuid string) bool
	// reserved are resources that are served otherwise.
	reserved []string
	// held receives a value when a container has a slice of a profile without a plugin.
	held chan struct{}
	// gpus has the GPU of each slice.
	gpus atomic.Pointer[map[string]string]

	mu         sync.Mutex
	byResource map[string]*deviceplugin.Plugin
	// missing are resources that containers have, but that have no plugin yet, with the devices.
	missing map[string][]string
}

// slicedGPUs returns the resource of whole GPUs beside which slices are served, if they are: without
// falldio.com/gpu, nobody expects the agent to give out parts of GPUs.
func (o *options) slicedGPUs() (gpus resource.Spec, sliced bool) {
	at := slices.IndexFunc(o.served, func(spec resource.Spec) bool {
		return spec.Kind == resource.GPUs && spec.Name == string(v1.ResourceGPU)
	})
	if at < 0 || o.mig != migSlices {
		return resource.Spec{}, false
	}
	return o.served[at], true
}

// newMIGPlugins returns plugins that differ only in their resource.
func newMIGPlugins(config *deviceplugin.Config, available func(uuid string) bool, reserved []string) *migPlugins {
	m := &migPlugins{
		config: *config, available: available, reserved: reserved, held: make(chan struct{}, 1),
		byResource: map[string]*deviceplugin.Plugin{}, missing: map[string][]string{},
	}
	m.gpus.Store(&map[string]string{})
	m.config.Slicing = &deviceplugin.Slicing{GPUs: func() map[string]string { return *m.gpus.Load() }}
	return m
}

// plugins returns the plugins, sorted by resource.
func (m *migPlugins) plugins() []*deviceplugin.Plugin {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*deviceplugin.Plugin
	for _, resource := range slices.Sorted(maps.Keys(m.byResource)) {
		list = append(list, m.byResource[resource])
	}
	return list
}

// wake returns a channel that receives a value when Update should be called although the GPUs
// have not changed.
func (m *migPlugins) wake() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.held
}

// observe takes over the kubelet's allocations: slices that containers have stay in the kubelet's
// list, destroyed ones that nobody has leave it.
func (m *migPlugins) observe(allocations []podresources.Allocation) {
	if m == nil {
		return
	}
	for _, plugin := range m.plugins() {
		held := podresources.DeviceIDs(allocations, plugin.Resource())
		plugin.Pool().Hold(held...)
		plugin.Pool().Release(held...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing = map[string][]string{}
	for i := range allocations {
		resource := allocations[i].Resource
		if podresources.IsOwnMIG(resource) && m.byResource[resource] == nil && !slices.Contains(m.reserved, resource) {
			m.missing[resource] = append(m.missing[resource], allocations[i].DeviceIDs...)
		}
	}
	if len(m.missing) > 0 {
		select {
		case m.held <- struct{}{}:
		default: // a value is pending already
		}
	}
}

// update sets the slices that the plugins offer, and runs those that are new in the group.
func (m *migPlugins) update(ctx context.Context, group *wait.Group, snapshot *gpu.Snapshot) {
	if m == nil {
		return
	}
	offered, gpus := slicesOf(snapshot, m.available)
	m.gpus.Store(&gpus)
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource := range offered {
		m.ensure(ctx, group, resource)
	}
	for resource, held := range m.missing {
		if plugin := m.ensure(ctx, group, resource); plugin != nil {
			plugin.Pool().Hold(held...)
		}
	}
	for resource, plugin := range m.byResource {
		if err := plugin.Pool().Set(offered[resource], nil); err != nil {
			klog.FromContext(ctx).Error(err, "The slices can't be offered to the kubelet", "resource", resource)
		}
	}
}

// ensure returns the plugin of a resource, which it creates and runs if there is none; nil if
// the resource is served otherwise.
func (m *migPlugins) ensure(ctx context.Context, group *wait.Group, resource string) *deviceplugin.Plugin {
	if plugin := m.byResource[resource]; plugin != nil || slices.Contains(m.reserved, resource) {
		return plugin
	}
	config := m.config
	config.Resource, config.Pool = resource, deviceplugin.NewPool()
	plugin, err := deviceplugin.New(config)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Slices can't be offered to the kubelet")
		return nil
	}
	m.byResource[resource] = plugin
	group.StartWithContext(ctx, plugin.Run)
	return plugin
}

// slicesOf returns the slices that device plugins offer, by resource, and the GPU of each slice.
// Their health is that of the GPU; one that containers can't get counts as unhealthy.
func slicesOf(snapshot *gpu.Snapshot, available func(uuid string) bool) (offered map[string][]deviceplugin.Device, gpus map[string]string) {
	offered, gpus = map[string][]deviceplugin.Device{}, map[string]string{}
	for i := range snapshot.Devices {
		device := &snapshot.Devices[i]
		for _, slice := range device.Slices {
			gpus[slice.UUID] = device.UUID
			resource := string(v1.MIGResource(slice.Profile))
			offered[resource] = append(offered[resource], deviceplugin.Device{
				ID: slice.UUID, Healthy: device.Healthy() && available(slice.UUID), MemoryMiB: int64(slice.MemoryBytes >> 20),
				NVLinkGroup: gpu.Unknown, NUMANode: device.NUMANode,
			})
		}
	}
	return offered, gpus
}
