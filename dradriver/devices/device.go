// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devices says what a node's GPUs are as devices of dynamic resource allocation (DRA),
// in the ResourceSlices of the node.
package devices

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The capacities of a device.
const (
	// Percent is how much of the GPU there is to share: 100.
	Percent resourceapi.QualifiedName = "percent"
	// Memory is all of the GPU's memory.
	Memory resourceapi.QualifiedName = "memory"
)

// ReasonNotDescribed is the taint's value on a GPU that containers can't get, because it is not
// described to the container runtime.
const ReasonNotDescribed = "NotDescribed"

// TaintInUse is the taint on a GPU that a container has from somebody else, such as the device
// plugin before the node was switched over. It disappears when that container ends.
const TaintInUse = v1.GroupName + "/gpu-in-use"

// Options are what the devices depend on besides the GPUs.
type Options struct {
	// Model overrides the model that the driver reports, unless it is empty.
	Model string
	// Effect is that of the taint on a GPU that is not healthy.
	Effect resourceapi.DeviceTaintEffect
	// Described reports whether containers can get the GPU with this UUID, and Held whether
	// somebody else has given it away.
	Described, Held func(uuid string) bool
	// PCIeRoot returns the PCIe root complex that a GPU is attached to, "pci0000:17"; empty if
	// unknown.
	PCIeRoot func(*gpu.Info) string
}

// Name returns the name of a GPU's device: its UUID, in lower case as names must be. An index
// would mean another card after one has fallen off the bus.
func Name(uuid string) string { return strings.ToLower(uuid) }

// Of returns the devices of a node with these GPUs, in their order. A GPU in MIG mode is
// none: it can't be used as a whole.
func Of(snapshot *gpu.Snapshot, options Options) []resourceapi.Device {
	var devices []resourceapi.Device
	for i := range snapshot.Devices {
		if of := &snapshot.Devices[i]; !of.MIG {
			devices = append(devices, resourceapi.Device{
				Name:                     Name(of.UUID),
				Attributes:               attributes(of, snapshot.Driver, options),
				Capacity:                 capacity(of),
				Taints:                   taints(of, options),
				AllowMultipleAllocations: new(true),
			})
		}
	}
	return devices
}

// capacity returns what claims can take of a GPU. A claim that says nothing takes all of it: 100
// percent. Memory that no claim asks for is not counted: else the first share without it would
// take all. A claim that asks for memory, but for no percentage, still takes the whole GPU.
func capacity(of *gpu.Device) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	all := resource.NewQuantity(share.PerGPU, resource.DecimalSI)
	one := resource.NewQuantity(1, resource.DecimalSI)
	shared := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{Percent: {Value: *all, RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: all, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: one, Max: all, Step: one},
	}}}
	if of.MemoryBytes > 0 {
		memory := resource.NewQuantity(int64(of.MemoryBytes), resource.BinarySI) //nolint:gosec // no GPU has 2^63 bytes
		none := resource.NewQuantity(0, resource.BinarySI)
		shared[Memory] = resourceapi.DeviceCapacity{Value: *memory, RequestPolicy: &resourceapi.CapacityRequestPolicy{
			Default: none, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: none, Max: memory},
		}}
	}
	return shared
}

// taints returns why new claims must not get a GPU; none if they may. Only a fault may end those
// who have it.
func taints(of *gpu.Device, options Options) []resourceapi.DeviceTaint {
	var list []resourceapi.DeviceTaint
	switch {
	case of.Fault != nil:
		since := metav1.NewTime(of.Fault.Since.UTC())
		list = append(list, resourceapi.DeviceTaint{Key: v1.TaintGPUUnhealthy, Value: of.Fault.Reason, Effect: options.Effect, TimeAdded: &since})
	case !options.Described(of.UUID):
		list = append(list, resourceapi.DeviceTaint{Key: v1.TaintGPUUnhealthy, Value: ReasonNotDescribed, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	if options.Held(of.UUID) {
		list = append(list, resourceapi.DeviceTaint{Key: TaintInUse, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	return list
}
