// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// gpuResources returns the GPUs of a node as device plugins offer them: those that are whole, as
// such and in percent, and the slices of each profile. Without any it has no entry.
func (g *NodeGroup) gpuResources() corev1.ResourceList {
	counts := map[corev1.ResourceName]int{}
	whole := g.GPUsPerNode
	for _, division := range g.MIG {
		gpus := division.Divided(whole)
		whole -= gpus
		for _, profile := range division.Slices {
			counts[v1.MIGResource(profile)] += gpus
		}
	}
	counts[v1.ResourceGPU], counts[v1.ResourceGPUPercent] = whole, 100*whole
	resources := corev1.ResourceList{}
	for name, count := range counts {
		if count > 0 {
			resources[name] = *resource.NewQuantity(int64(count), resource.DecimalSI)
		}
	}
	return resources
}
