// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"reflect"
	"slices"
)

// AssignmentAnnotation is the annotation of a Pod that holds its Assignment. The scheduler
// writes it when it binds the Pod; the node agent corrects it if the kubelet has allocated
// other devices, unless the agent does not know its version.
const AssignmentAnnotation = "falldio.com/gpu-assignment"

// Assignment is the devices assigned to a Pod.
type Assignment struct {
	Version string `json:"version"`
	// Containers are the devices' IDs by container and resource, sorted: {"gpu-task":
	// {"falldio.com/gpu": ["GPU-…", "GPU-…"]}}. For a share of a GPU, the ID is the UUID of
	// the GPU, once; the container requests how much of it: {"gpu-task":
	// {"falldio.com/gpu-percent": ["GPU-…"]}}.
	Containers map[string]map[string][]string `json:"containers"`
	// Enforcement is what limits how much of its GPU a container with a share can use, by
	// container: {"gpu-task": "none"}. The node agent writes it; a container that it does not
	// name is one of which the agent knows nothing.
	Enforcement map[string]string `json:"enforcement,omitzero"`
}

// What may limit a container to its share of a GPU.
const (
	// EnforcementNone: nothing does.
	EnforcementNone = "none"
	// EnforcementMPS: the container was made a client of NVIDIA's Multi-Process Service, with
	// limits for each of its processes.
	EnforcementMPS = "mps"
	// EnforcementDMem: NVIDIA's driver limits the GPU memory of the container's control group,
	// of all its processes together. Nothing limits how much it computes.
	EnforcementDMem = "dmem"
	// EnforcementMPSAndDMem: both.
	EnforcementMPSAndDMem = "mps+dmem"
	// EnforcementUnknown: it can't be found out. The annotation never has it.
	EnforcementUnknown = "unknown"
)

// ParseAssignment parses the annotation's value.
func ParseAssignment(text string) (*Assignment, error) {
	assignment := &Assignment{}
	if err := decode(AssignmentAnnotation, text, assignment); err != nil {
		return nil, err
	}
	if assignment.Version != Version {
		return nil, fmt.Errorf("annotation %s: %w", AssignmentAnnotation, unknownVersion(assignment.Version))
	}
	return assignment, nil
}

// SameDevices reports whether two values of the annotation assign the same devices to the same
// containers, whatever else they say.
func SameDevices(a, b string) bool {
	if a == b {
		return true
	}
	first, errFirst := ParseAssignment(a)
	second, errSecond := ParseAssignment(b)
	return errFirst == nil && errSecond == nil && reflect.DeepEqual(first.Containers, second.Containers)
}

// Add assigns devices of a resource to a container.
func (a *Assignment) Add(container, resource string, ids ...string) {
	if a.Containers == nil {
		a.Containers = map[string]map[string][]string{}
	}
	if a.Containers[container] == nil {
		a.Containers[container] = map[string][]string{}
	}
	all := slices.Concat(a.Containers[container][resource], ids)
	slices.Sort(all)
	a.Containers[container][resource] = slices.Compact(all)
}

// String returns the annotation's value. Equal assignments give equal values.
func (a Assignment) String() (string, error) {
	a.Version = Version
	return encode(a)
}
