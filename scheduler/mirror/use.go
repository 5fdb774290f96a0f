// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// useOf returns what a Pod holds on its node. What is written in the Pod takes precedence
// over its seat: the node's agent corrects it.
func (m *Mirror) useOf(n *node, e *entry) placement.Use {
	if len(n.heldByClaims) > 0 {
		return snapshot.OccupiedBesideClaims(m.cluster, &n.described, n.cards, e.pod, e.use.GPUs)
	}
	return snapshot.Occupied(m.cluster, &n.described, n.cards, e.pod, e.use.GPUs)
}
