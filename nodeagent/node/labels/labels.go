// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labels derives the labels and the inventory annotation of a Node from its GPUs.
package labels

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const bytesPerMiB = 1 << 20

// Options are the user's settings.
type Options struct {
	// Model overrides the model that the driver reports, unless it is empty.
	Model string
}

// model returns the value of the label falldio.com/gpu for a GPU.
func (o Options) model(device *gpu.Device) string {
	if o.Model != "" {
		return o.Model
	}
	return gpumodel.Normalize(device.Product)
}

// Labels returns the labels of a node with these GPUs; none if it has no GPUs, and only its
// health if all of them are missing. before are the previous labels: a value close to the edge
// of its bucket stays as it was.
//
// The count is that of the physical GPUs, whatever their health and whether or not MIG divides
// them. Missing GPUs do not count: nothing is known of them.
//
// A model or a compute capability gets a label only if all GPUs have it: otherwise the
// scheduler would place tasks on GPUs that they did not request. The label for memory is
// the smallest of the GPUs'.
func Labels(snapshot *gpu.Snapshot, before map[string]string, options Options) map[string]string {
	devices := snapshot.Devices
	if len(devices) == 0 {
		if snapshot.Missing > 0 {
			return map[string]string{v1.LabelGPUHealth: v1.GPUsUnhealthy}
		}
		return map[string]string{}
	}
	labels := map[string]string{
		v1.LabelGPUCount:             strconv.Itoa(len(devices)),
		v1.LabelGPUHealth:            healthOf(snapshot),
		v1.LabelGPUModel:             same(devices, options.model),
		v1.LabelGPUMemory:            smallestMemory(devices),
		v1.LabelGPUComputeCapability: same(devices, func(d *gpu.Device) string { return value(d.ComputeCapability) }),
		v1.LabelGPUDriver:            value(snapshot.Driver.Version),
		v1.LabelGPUCUDA:              value(snapshot.Driver.CUDA),
		v1.LabelGPUFreeMemory:        freeMemory(devices, before[v1.LabelGPUFreeMemory]),
	}
	maps.Copy(labels, migLabels(devices))
	maps.DeleteFunc(labels, func(_, text string) bool { return text == "" })
	return labels
}

// Mixed reports whether the GPUs are of several models, so that the node can't have the label
// falldio.com/gpu. GPUs of unknown model do not count.
func Mixed(snapshot *gpu.Snapshot, options Options) bool {
	models := sets.New[string]()
	for i := range snapshot.Devices {
		models.Insert(options.model(&snapshot.Devices[i]))
	}
	return models.Delete("").Len() > 1
}

// same returns the value that all devices have in common, or "" if they differ or it is
// unknown.
func same(devices []gpu.Device, what func(*gpu.Device) string) string {
	first := what(&devices[0])
	for i := range devices {
		if what(&devices[i]) != first {
			return ""
		}
	}
	return first
}

// smallestMemory returns the memory of the smallest GPU, in MiB; "" if it is unknown for any.
func smallestMemory(devices []gpu.Device) string {
	smallest := devices[0].MemoryBytes
	for i := range devices {
		smallest = min(smallest, devices[i].MemoryBytes)
	}
	if smallest == 0 {
		return ""
	}
	return strconv.FormatUint(smallest/bytesPerMiB, 10)
}

func healthOf(snapshot *gpu.Snapshot) string {
	healthy := 0
	for i := range snapshot.Devices {
		if snapshot.Devices[i].Healthy() {
			healthy++
		}
	}
	switch {
	case healthy == 0:
		return v1.GPUsUnhealthy
	case healthy < len(snapshot.Devices) || snapshot.Missing > 0:
		return v1.GPUsDegraded
	default:
		return v1.GPUsHealthy
	}
}

// notInValues matches characters that a label's value can't contain.
var notInValues = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// value converts a string from the driver to a valid value of a label.
func value(text string) string {
	text = notInValues.ReplaceAllString(text, "-")
	if len(text) > validation.LabelValueMaxLength {
		text = text[:validation.LabelValueMaxLength]
	}
	return strings.Trim(text, "._-")
}

// Inventory returns the inventory annotation's content for a node with these
// GPUs.
func Inventory(snapshot *gpu.Snapshot, options Options) inventory.Inventory {
	list := inventory.Inventory{GPUs: make([]inventory.GPU, 0, len(snapshot.Devices))}
	for i := range snapshot.Devices {
		device := &snapshot.Devices[i]
		list.GPUs = append(list.GPUs, inventory.GPU{
			Index:       device.Index,
			UUID:        device.UUID,
			Model:       options.model(device),
			MemoryMiB:   int64(device.MemoryBytes / bytesPerMiB), //nolint:gosec // no GPU has 2^63 bytes
			NVLinkGroup: orNil(device.NVLinkGroup),
			NUMANode:    orNil(device.NUMANode),
			MIG:         device.MIG,
			Slices:      inventorySlices(device.Slices),
			Health:      inventoryHealth(device),
			Fault:       inventoryFault(device.Fault),
			PastFaults:  pastFaults(device.PastFaults),
		})
	}
	return list
}

func orNil(number int) *int {
	if number == gpu.Unknown {
		return nil
	}
	return &number
}

func inventoryHealth(device *gpu.Device) string {
	if device.Healthy() {
		return inventory.Healthy
	}
	return inventory.Unhealthy
}
