// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const bytesPerMiB = 1 << 20

// applyPlacement restricts the Pod to the nodes that its role asks for.
func applyPlacement(spec *corev1.PodSpec, role *Role) error {
	selectNode(spec, v1.LabelGPUModel, role.GPU)
	selectNode(spec, v1.LabelNodePool, role.NodePool)
	tolerate(spec, v1.TaintGPU)
	tolerate(spec, v1.TaintNVIDIA)

	if role.GPUMemory == "" {
		return nil
	}
	quantity, err := resource.ParseQuantity(role.GPUMemory)
	if err != nil {
		return fmt.Errorf("%s %q: %w", role.field("gpuMemory"), role.GPUMemory, err)
	}
	requireGPUMemory(spec, quantity)
	return nil
}

func selectNode(spec *corev1.PodSpec, label, value string) {
	if value == "" {
		return
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[label] = value
}

func tolerate(spec *corev1.PodSpec, taint string) {
	alreadyTolerated := slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == taint || (t.Key == "" && t.Operator == corev1.TolerationOpExists)
	})
	if !alreadyTolerated {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
}

// requireGPUMemory adds a node affinity on the node's memory label. The terms
// of a node selector are alternatives, so each of them gets the requirement.
func requireGPUMemory(spec *corev1.PodSpec, memory resource.Quantity) {
	atLeastMiB := (memory.Value() + bytesPerMiB - 1) / bytesPerMiB
	requirement := corev1.NodeSelectorRequirement{
		Key:      v1.LabelGPUMemory,
		Operator: corev1.NodeSelectorOpGt,
		Values:   []string{strconv.FormatInt(atLeastMiB-1, 10)},
	}
	node := nodeAffinity(spec)
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{}},
		}
	}
	terms := node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, requirement)
	}
}

// nodeAffinity returns that of a Pod, which is added if it has none.
func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	spec.Affinity = cmp.Or(spec.Affinity, &corev1.Affinity{})
	spec.Affinity.NodeAffinity = cmp.Or(spec.Affinity.NodeAffinity, &corev1.NodeAffinity{})
	return spec.Affinity.NodeAffinity
}
