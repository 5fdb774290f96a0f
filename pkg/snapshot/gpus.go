// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// GPUResources returns the names of the extended resources that count whole GPUs.
func GPUResources() []corev1.ResourceName {
	return []corev1.ResourceName{v1.ResourceGPU, v1.ResourceNVIDIAGPU}
}

// askedGPUs are the GPUs that a Pod asks for: whole ones or a share of one.
type askedGPUs struct {
	// resource is the name under which they are asked for; empty if there are none.
	resource    corev1.ResourceName
	gpus, share int
}

// askedIn returns the GPUs in a Pod's requests. An error names a request that no node can
// satisfy.
func askedIn(requests corev1.ResourceList) (askedGPUs, error) {
	ours, theirs, percent := quantity(requests, v1.ResourceGPU), quantity(requests, v1.ResourceNVIDIAGPU), quantity(requests, v1.ResourceGPUPercent)
	whole, name := ours, v1.ResourceGPU
	if theirs > 0 {
		whole, name = theirs, v1.ResourceNVIDIAGPU
	}
	switch {
	case ours > 0 && theirs > 0:
		return askedGPUs{}, fmt.Errorf("asks for %s and %s, which are the same cards: ask for all of them with one of the names", v1.ResourceGPU, v1.ResourceNVIDIAGPU)
	case whole > 0 && percent > 0:
		return askedGPUs{}, fmt.Errorf("asks for %s and %s: a Pod gets whole GPUs or a share of one", name, v1.ResourceGPUPercent)
	case whole > placement.MaxCards:
		return askedGPUs{}, fmt.Errorf("asks for %d GPUs: at most %d of a node are used", whole, placement.MaxCards)
	case percent > placement.Card:
		return askedGPUs{}, fmt.Errorf("asks for %d of %s: a share is at most %d; several GPUs are asked for with %s", percent, v1.ResourceGPUPercent, placement.Card, v1.ResourceGPU)
	case whole > 0:
		return askedGPUs{resource: name, gpus: int(whole)}, nil
	case percent == placement.Card:
		return askedGPUs{resource: v1.ResourceGPUPercent, gpus: 1}, nil
	case percent > 0:
		return askedGPUs{resource: v1.ResourceGPUPercent, share: int(percent)}, nil
	}
	return askedGPUs{}, nil
}

// heldOf returns the GPUs that a bound Pod holds. Unlike a waiting one, it holds what it asks
// for even if that makes no sense: the kubelet knows nothing of the names' meaning.
func heldOf(requests corev1.ResourceList) askedGPUs {
	if asked, err := askedIn(requests); err == nil {
		return asked
	}
	whole := int64(0)
	for _, name := range GPUResources() {
		whole += min(quantity(requests, name), placement.MaxCards)
	}
	percent := quantity(requests, v1.ResourceGPUPercent)
	return askedGPUs{gpus: int(min(whole+(percent+placement.Card-1)/placement.Card, placement.MaxCards))}
}

// foreignOffers returns the names under which a node offers GPUs; none unless it offers
// some under a name that is not ours.
func foreignOffers(node *corev1.Node) []corev1.ResourceName {
	if quantity(node.Status.Allocatable, v1.ResourceNVIDIAGPU) <= 0 {
		return nil
	}
	names := []corev1.ResourceName{v1.ResourceNVIDIAGPU}
	for _, name := range []corev1.ResourceName{v1.ResourceGPU, v1.ResourceGPUPercent} {
		if quantity(node.Status.Allocatable, name) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// offers reports whether a node with the traits may offer GPUs under a name. Nodes that
// don't list the traits offer ours, or no GPUs at all, which the engine knows.
func (t *traits) offers(resource corev1.ResourceName) bool {
	switch {
	case resource == "":
		return true
	case len(t.Offers) == 0:
		return resource != v1.ResourceNVIDIAGPU && resource != ResourceClaims
	default:
		return slices.Contains(t.Offers, resource)
	}
}

// GPUResource returns the name under which a shape asks for GPUs; empty if it asks for none
// or its Selector is not of this package.
func GPUResource(shape *placement.Shape) corev1.ResourceName {
	if selector, ours := shape.Selector.(*Selector); ours {
		return selector.resource
	}
	return ""
}

// WithoutCards returns a shape whose GPUs are left to kube-scheduler: the resource is one
// like any other that the engine counts only where nodes list it. It is for GPUs that no
// node lists since a DRA driver gives them out.
func WithoutCards(shape placement.Shape) placement.Shape {
	selector, ours := shape.Selector.(*Selector)
	if !ours || selector.resource == "" {
		return shape
	}
	shape.Others = shape.Others.With(string(selector.resource), int64(shape.GPUs))
	shape.GPUs, shape.Models, shape.GPUMemory = 0, nil, 0
	shape.Selector = selector.withoutResource()
	return shape
}
