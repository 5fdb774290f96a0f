// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package attribution

import "falldio.github.io/gpu-controller/nodeagent/hardware/gpu"

// Use is what some processes use of a GPU together.
type Use struct {
	Processes int
	// Values has all quantities that were measured.
	Values gpu.Values
}

// Usage is what containers use of a GPU.
type Usage struct {
	measured []gpu.Quantity
	// of is by container; the zero one has what belongs to none.
	of map[Container]Use
}

// Sum adds up what processes use, by their containers.
func Sum(sample *gpu.ProcessSample, containerOf func(pid int) (Container, bool)) *Usage {
	u := &Usage{measured: sample.Measured, of: map[Container]Use{}}
	for i := range sample.Processes {
		process := &sample.Processes[i]
		container, _ := containerOf(process.PID)
		u.of[container] = u.plus(u.of[container], Use{1, process.Values})
	}
	return u
}

// plus adds uses. Shares of time are added as well: those of all processes add up to that of
// the GPU.
func (u *Usage) plus(a, b Use) Use {
	sum := Use{a.Processes + b.Processes, make(gpu.Values, len(u.measured))}
	for _, quantity := range u.measured {
		sum.Values[quantity] = a.Values[quantity] + b.Values[quantity]
	}
	return sum
}

// Split returns what each of the containers uses that hold the GPU, in their order, and what
// all others use together. A process of which only the Pod is known is counted for the
// container of the Pod that holds the GPU, if it is the only one.
func (u *Usage) Split(holders []Container) (uses []Use, others Use) {
	// Which holder a key of u.of counts for; -1 for a Pod with several.
	owner := map[Container]int{}
	for i, holder := range holders {
		owner[holder] = i
		pod := Container{Namespace: holder.Namespace, Pod: holder.Pod}
		if _, several := owner[pod]; several {
			i = -1
		}
		owner[pod] = i
	}
	uses = make([]Use, len(holders))
	for i := range uses {
		uses[i] = u.plus(Use{}, Use{})
	}
	for container, use := range u.of {
		if i, found := owner[container]; found && i >= 0 {
			uses[i] = u.plus(uses[i], use)
		} else {
			others = u.plus(others, use)
		}
	}
	return uses, others
}
