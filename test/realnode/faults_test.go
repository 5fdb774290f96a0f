// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

func TestALostGPUIsOnOfferAgainWhenItHasRecovered(t *testing.T) {
	const broken = 3
	s := newScene(t)
	s.createGPUPod("bystander", 2)
	pod := s.waitForPod("bystander")
	devices := s.devicesOf(pod)

	s.inject(broken, "Lost")
	t.Cleanup(func() { s.inject(broken, "Recovered") })
	s.waitForAllocatable(v1.ResourceGPU, gpus-1)
	s.waitForHealth(broken, inventory.Unhealthy)
	s.createGPUPod("too-large", gpus-2)
	s.waitUntilItLacksGPUs("too-large", gpus-2)
	s.createGPUPod("rest", gpus-3)
	rest := s.devicesOf(s.waitForPod("rest"))[string(v1.ResourceGPU)]
	s.haveNothingInCommon(rest, append(devices[string(v1.ResourceGPU)], s.inventoryOfNode().GPUs[broken].UUID))
	s.deletePod("rest")

	s.inject(broken, "Recovered")
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.waitForHealth(broken, inventory.Healthy)
	s.devicesOf(s.waitForPod("too-large"))
	s.isUnaffected(pod, devices)
}

// waitForHealth waits until a GPU has this health in the inventory, and the node's
// label shows that of the whole node.
func (s *scene) waitForHealth(index int, health string) {
	s.Helper()
	s.eventually(fmt.Sprintf("the inventory has GPU %d %s", index, health), func() (bool, string) {
		published := s.inventoryOfNode()
		for _, gpu := range published.GPUs {
			if gpu.Index == index {
				return gpu.Health == health, fmt.Sprintf("%+v", gpu)
			}
		}
		return false, fmt.Sprintf("it has only %+v", published.GPUs)
	})
	label := inventory.Healthy
	if health != inventory.Healthy {
		label = "Degraded"
	}
	s.waitForLabel(v1.LabelGPUHealth, label)
}
