// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// WantsGPUs reports whether a Pod asks for GPUs, a share of one, or MIG slices.
func WantsGPUs(pod *corev1.Pod) bool {
	return anyContainer(pod, func(container *corev1.Container) bool {
		return wantsCards(container) || wantsSlices(container, v1.SliceProfile)
	})
}

// WantsCards reports whether a Pod asks for GPUs or a share of one: for cards of which the engine
// knows who has which.
func WantsCards(pod *corev1.Pod) bool { return anyContainer(pod, wantsCards) }

func wantsCards(container *corev1.Container) bool {
	return wantsResource(container, v1.ResourceGPU) || wantsResource(container, v1.ResourceGPUPercent) || wantsResource(container, v1.ResourceNVIDIAGPU)
}

// WantsOurSlices reports whether a Pod asks for MIG slices that the node agent gives out.
func WantsOurSlices(pod *corev1.Pod) bool {
	return anyContainer(pod, func(container *corev1.Container) bool { return wantsSlices(container, v1.MIGProfileOf) })
}

// WantsSlices reports whether a Pod asks for MIG slices, from whichever device plugin.
func WantsSlices(pod *corev1.Pod) bool {
	return anyContainer(pod, func(container *corev1.Container) bool { return wantsSlices(container, v1.SliceProfile) })
}

// wantsSlices reports whether a container asks for a resource that a function accepts.
func wantsSlices(container *corev1.Container, accepts func(corev1.ResourceName) (profile string, ok bool)) bool {
	for name, amount := range container.Resources.Requests {
		if _, ok := accepts(name); ok && amount.Sign() > 0 {
			return true
		}
	}
	return false
}

// WantsAny reports whether a Pod asks for any of some resources.
func WantsAny(pod *corev1.Pod, names ...corev1.ResourceName) bool {
	return anyContainer(pod, func(container *corev1.Container) bool {
		return slices.ContainsFunc(names, func(name corev1.ResourceName) bool { return wantsResource(container, name) })
	})
}

func wantsResource(container *corev1.Container, name corev1.ResourceName) bool {
	return quantity(container.Resources.Requests, name) > 0
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
	asked, err := askedIn(requests)
	if err != nil {
		return shape, err
	}
	shape.GPUs, shape.Share = asked.gpus, asked.share
	return shape, setNodeConstraints(&shape, asked.resource, pod)
}

// Use returns what a bound Pod holds, with the given cards.
func Use(pod *corev1.Pod, cards []int) placement.Use {
	shape := demand(held(pod))
	use := placement.Use{CPU: shape.CPU, Memory: shape.Memory, Others: shape.Others}
	if len(cards) > 0 {
		use.GPUs, use.Percent = cards, placement.Card
		// The size of a share can't be changed, and the kubelet need not report it.
		if asked := heldOf(Requests(pod)); asked.share > 0 {
			use.Percent = asked.share
		}
	}
	return use
}

// demand is the part of a shape that has nothing to do with GPUs.
func demand(requests corev1.ResourceList) placement.Shape {
	memory := float64(quantity(requests, corev1.ResourceMemory))
	return placement.Shape{CPU: milliCores(requests), Memory: int64(math.Ceil(memory / bytesPerMiB)), Others: Others(requests)}
}

// milliCores returns the CPU in a list, at most placement.MaxAmount, so that what all Pods of a node ask
// for can be added up. Quantities of more overflow in MilliValue.
func milliCores(list corev1.ResourceList) int64 {
	amount := list[corev1.ResourceCPU]
	const milli = 1000
	if amount.CmpInt64(placement.MaxAmount/milli) > 0 {
		return placement.MaxAmount
	}
	return amount.MilliValue()
}

// setNodeConstraints sets which nodes a Pod may run on. What the engine models itself is
// set as fields, so that its explanations name it: the model, the pool, the memory of GPUs.
// Where others offer the GPUs, the model and the memory may come from other labels than
// those that the Pod selects by, so these stay in the Selector.
func setNodeConstraints(shape *placement.Shape, resource corev1.ResourceName, pod *corev1.Pod) error {
	c := criteria{NodeSelector: maps.Clone(pod.Spec.NodeSelector), Terms: requiredTerms(pod), Tolerations: tolerations(pod), Resource: resource}
	ours := shape.Percent() > 0 && resource != v1.ResourceNVIDIAGPU && resource != ResourceClaims
	if model := c.NodeSelector[v1.LabelGPUModel]; model != "" && (ours || resource == "" && hasOurSlices(shape.Others)) {
		shape.Models = []string{model}
		delete(c.NodeSelector, v1.LabelGPUModel)
	}
	if pool := c.NodeSelector[v1.LabelNodePool]; pool != "" {
		shape.Pool = pool
		delete(c.NodeSelector, v1.LabelNodePool)
	}
	shape.Nodes = c.takeNodeNames()
	if len(c.Terms) == 1 && ours {
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
	required := nodeAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil
	}
	return required.NodeSelectorTerms
}

// nodeAffinity returns that of a Pod; an empty one if it has none.
func nodeAffinity(pod *corev1.Pod) corev1.NodeAffinity {
	if pod.Spec.Affinity == nil {
		return corev1.NodeAffinity{}
	}
	return ptr.Deref(pod.Spec.Affinity.NodeAffinity, corev1.NodeAffinity{})
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
	slices.SortFunc(list, func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return list
}
