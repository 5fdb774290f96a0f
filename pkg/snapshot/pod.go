// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// WantsGPUs reports whether a Pod asks for GPUs or a share of one.
func WantsGPUs(pod *corev1.Pod) bool {
	return anyContainer(pod, func(container *corev1.Container) bool {
		return quantity(container.Resources.Requests, v1.ResourceGPU) > 0 || quantity(container.Resources.Requests, v1.ResourceGPUPercent) > 0
	})
}

func anyContainer(pod *corev1.Pod, is func(*corev1.Container) bool) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if is(&list[i]) {
				return true
			}
		}
	}
	return false
}

// Shape returns what a Pod needs. An error names a request that no node can satisfy.
func Shape(pod *corev1.Pod) (placement.Shape, error) {
	requests := Requests(pod)
	shape := demand(requests)
	whole, percent := quantity(requests, v1.ResourceGPU), quantity(requests, v1.ResourceGPUPercent)
	switch {
	case whole > 0 && percent > 0:
		return shape, fmt.Errorf("asks for %s and %s: a Pod gets whole GPUs or a share of one", v1.ResourceGPU, v1.ResourceGPUPercent)
	case whole > placement.MaxCards:
		return shape, fmt.Errorf("asks for %d GPUs: no node has more than %d", whole, placement.MaxCards)
	case percent > placement.Card:
		return shape, fmt.Errorf("asks for %d of %s: a share is at most %d; several GPUs are asked for with %s", percent, v1.ResourceGPUPercent, placement.Card, v1.ResourceGPU)
	}
	if percent == placement.Card {
		shape.GPUs = 1
	} else {
		shape.GPUs, shape.Share = int(whole), int(percent)
	}
	return shape, setNodeConstraints(&shape, pod)
}

// Use returns what a bound Pod holds, with the given cards.
func Use(pod *corev1.Pod, cards []int) placement.Use {
	shape := demand(held(pod))
	use := placement.Use{CPU: shape.CPU, Memory: shape.Memory, Others: shape.Others}
	if len(cards) > 0 {
		use.GPUs, use.Percent = cards, placement.Card
		// The size of a share can't be changed, and the kubelet need not report it.
		if percent := quantity(Requests(pod), v1.ResourceGPUPercent); percent > 0 {
			use.Percent = int(min(percent, placement.Card))
		}
	}
	return use
}

// demand is the part of a shape that has nothing to do with GPUs.
func demand(requests corev1.ResourceList) placement.Shape {
	memory := float64(quantity(requests, corev1.ResourceMemory))
	return placement.Shape{CPU: requests.Cpu().MilliValue(), Memory: int64(math.Ceil(memory / bytesPerMiB)), Others: Others(requests)}
}

// setNodeConstraints sets which nodes a Pod may run on. What the engine models itself is
// set as fields, so that its explanations name it: the model, the pool, the memory of GPUs.
func setNodeConstraints(shape *placement.Shape, pod *corev1.Pod) error {
	c := criteria{NodeSelector: maps.Clone(pod.Spec.NodeSelector), Terms: requiredTerms(pod), Tolerations: tolerations(pod)}
	if model := c.NodeSelector[v1.LabelGPUModel]; model != "" && shape.Percent() > 0 {
		shape.Models = []string{model}
		delete(c.NodeSelector, v1.LabelGPUModel)
	}
	if pool := c.NodeSelector[v1.LabelNodePool]; pool != "" {
		shape.Pool = pool
		delete(c.NodeSelector, v1.LabelNodePool)
	}
	shape.Nodes = c.takeNodeNames()
	if len(c.Terms) == 1 && shape.Percent() > 0 {
		shape.GPUMemory, c.Terms = takeGPUMemory(c.Terms[0])
	}
	selector, err := newSelector(c)
	if err != nil {
		return err
	}
	shape.Selector = selector
	shape.Preference, err = newPreference(pod)
	return err
}

func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// takeGPUMemory extracts the minimum memory of GPUs, in MiB, from the only term of a node
// affinity, and returns what is left.
func takeGPUMemory(term corev1.NodeSelectorTerm) (least int64, left []corev1.NodeSelectorTerm) {
	var others []corev1.NodeSelectorRequirement
	for _, expression := range term.MatchExpressions {
		more, isMemory := moreThan(expression)
		if !isMemory {
			others = append(others, expression)
			continue
		}
		least = max(least, more+1)
	}
	term.MatchExpressions = others
	if least > 0 && len(others) == 0 && len(term.MatchFields) == 0 {
		return least, nil
	}
	return least, []corev1.NodeSelectorTerm{term}
}

func moreThan(expression corev1.NodeSelectorRequirement) (number int64, isMemory bool) {
	if expression.Key != v1.LabelGPUMemory || expression.Operator != corev1.NodeSelectorOpGt || len(expression.Values) != 1 {
		return 0, false
	}
	number, err := strconv.ParseInt(expression.Values[0], 10, 64)
	return number, err == nil && number >= 0 && number < math.MaxInt64
}

// tolerations returns those that matter for where a Pod may run, in a canonical order.
func tolerations(pod *corev1.Pod) []corev1.Toleration {
	return tolerationsOf(pod, func(effect corev1.TaintEffect) bool { return effect != corev1.TaintEffectPreferNoSchedule })
}

// tolerationsOf returns those with some effects, in a canonical order.
func tolerationsOf(pod *corev1.Pod, matters func(corev1.TaintEffect) bool) []corev1.Toleration {
	var list []corev1.Toleration
	for _, toleration := range pod.Spec.Tolerations {
		if !matters(toleration.Effect) {
			continue
		}
		toleration.TolerationSeconds = nil
		list = append(list, toleration)
	}
	slices.SortFunc(list, func(a, b corev1.Toleration) int { return compareTolerations(&a, &b) })
	return list
}
