// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Role is one of the roles of a task, with what it leaves out filled in from the task.
type Role struct {
	v1.Role
	// First is the index of its first Pod in the task.
	First int
}

// noGPUs is the gpu-amount of a role without GPUs.
const noGPUs = "0"

// Roles returns the roles of a task in the order of their Pods' indexes. A task without roles has
// one that has no name.
func Roles(task *v1.GPUTask) []Role {
	if len(task.Spec.Roles) == 0 {
		return []Role{fillIn(v1.Role{Replicas: new(int32(Total(task)))}, task)} //nolint:gosec // at most 10000
	}
	roles := make([]Role, 0, len(task.Spec.Roles))
	first := 0
	for i := range task.Spec.Roles {
		role := fillIn(task.Spec.Roles[i], task)
		role.First = first
		first += role.Count()
		roles = append(roles, role)
	}
	return roles
}

func fillIn(own v1.Role, task *v1.GPUTask) Role {
	role, spec := Role{Role: own}, &task.Spec
	role.GPUAmount = cmp.Or(role.GPUAmount, spec.GPUAmount)
	if role.hasGPUs() { // what the others' GPUs must be like does not matter
		role.GPU = cmp.Or(role.GPU, spec.GPU)
		role.GPUProfile = cmp.Or(role.GPUProfile, spec.GPUProfile)
		role.GPUMemory = cmp.Or(role.GPUMemory, spec.GPUMemory)
	}
	role.CPU = cmp.Or(role.CPU, spec.CPU)
	role.Memory = cmp.Or(role.Memory, spec.Memory)
	role.NodePool = cmp.Or(role.NodePool, spec.NodePool)
	role.Template = cmp.Or(role.Template, spec.Template)
	role.FailurePolicy = cmp.Or(role.FailurePolicy, spec.FailurePolicy)
	if len(role.FailureRules) == 0 {
		role.FailureRules = spec.FailureRules
	}
	return role
}

// roleAt returns the role of the member with the given index.
func roleAt(task *v1.GPUTask, index int) Role {
	roles := Roles(task)
	for i := range roles {
		if index < roles[i].First+roles[i].Count() {
			return roles[i]
		}
	}
	return roles[len(roles)-1]
}

func (r *Role) hasGPUs() bool { return r.Name == "" || r.GPUAmount != noGPUs }

// Count returns the number of Pods of the role.
func (r *Role) Count() int { return atLeastOne(r.Replicas) }

// field returns the path of a field of the role for messages to users.
func (r *Role) field(name string) string {
	if r.Name == "" {
		return "spec." + name
	}
	return "spec.roles[" + r.Name + "]." + name
}
