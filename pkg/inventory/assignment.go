// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
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
}

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
