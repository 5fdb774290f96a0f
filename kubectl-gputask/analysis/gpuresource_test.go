// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestHowTheTasksOfAClusterRequestGPUs(t *testing.T) {
	t.Parallel()
	offering := func(name corev1.ResourceName, count string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{name: resource.MustParse(count)}}}
	}
	tests := map[string]struct {
		nodes []*corev1.Node
		want  corev1.ResourceName
	}{
		"nobody offers any":            {nil, v1.ResourceGPU},
		"nodeagent gives them out":     {[]*corev1.Node{offering(v1.ResourceGPU, "8")}, v1.ResourceGPU},
		"NVIDIA's plugin does":         {[]*corev1.Node{offering(corev1.ResourceCPU, "8"), offering(v1.ResourceNVIDIAGPU, "8")}, v1.ResourceNVIDIAGPU},
		"nodeagent did before":         {[]*corev1.Node{offering(v1.ResourceGPU, "0"), offering(v1.ResourceNVIDIAGPU, "8")}, v1.ResourceNVIDIAGPU},
		"NVIDIA's plugin does: slices": {[]*corev1.Node{offering("nvidia.com/mig-1g.10gb", "7")}, v1.ResourceNVIDIAGPU},
		"nodeagent does: slices":       {[]*corev1.Node{offering(v1.ResourceNVIDIAGPU, "1"), offering("falldio.com/mig-1g.10gb", "7")}, v1.ResourceGPU},
		"either does on some nodes":    {[]*corev1.Node{offering(v1.ResourceNVIDIAGPU, "8"), offering(v1.ResourceGPU, "8")}, v1.ResourceGPU},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := analysis.GPUResource(test.nodes); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
