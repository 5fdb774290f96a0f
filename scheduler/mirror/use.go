// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// useOf returns what a Pod holds on its node. What its resource claims say takes precedence over
// what is written in the Pod, and that over its seat: the node's agent corrects it.
func (m *Mirror) useOf(n *node, e *entry) placement.Use {
	if cards, all := n.cards.Indices(m.owned[e.pod.UID]); all && len(cards) > 0 {
		return snapshot.Use(e.pod, slices.Sorted(slices.Values(cards)))
	}
	if len(e.pod.Spec.ResourceClaims) > 0 && !snapshot.WantsCards(e.pod) {
		return snapshot.Use(e.pod, e.use.GPUs)
	}
	// A Pod with a seat gets the cards of its seat, also while its claim is being made.
	if len(n.heldByClaims) > 0 && !e.held {
		return snapshot.OccupiedBesideClaims(m.cluster, &n.described, n.cards, e.pod, e.use.GPUs)
	}
	return snapshot.Occupied(m.cluster, &n.described, n.cards, e.pod, e.use.GPUs)
}
