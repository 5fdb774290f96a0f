// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"maps"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// SetDevices sets which GPUs resource claims hold: their UUIDs, sorted, by node. They count
// from the next Refresh on. It returns the nodes for which something has changed, and whether
// a GPU is held no longer.
func (m *Mirror) SetDevices(held map[string][]string) (changed []string, released bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, nodes := range []map[string][]string{held, m.devices} {
		for name := range nodes {
			if !slices.Equal(held[name], m.devices[name]) {
				changed = append(changed, name)
			}
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	before := m.devices
	m.devices = maps.Clone(held)
	for _, name := range changed {
		released = released || slices.ContainsFunc(before[name], func(uuid string) bool { return !slices.Contains(held[name], uuid) })
		if n := m.nodes[name]; n != nil {
			n.generation = 0 // no snapshot has it: the node is synced again
		}
	}
	return changed, released
}

// HeldByClaims reports whether resource claims hold any of some cards of a node, for use
// within With or For.
func (m *Mirror) HeldByClaims(name string, cards []int) bool {
	n := m.nodes[name]
	return n != nil && slices.ContainsFunc(n.heldByClaims, func(card int) bool { return slices.Contains(cards, card) })
}

// placeDevices counts the GPUs of a node that resource claims hold, as those of a Pod that
// can't be evicted.
func (m *Mirror) placeDevices(n *node) {
	use := snapshot.DevicesUse(n.cards, m.devices[n.described.Name])
	if slices.Equal(use.GPUs, n.heldByClaims) {
		return
	}
	name := snapshot.DevicesName(n.described.Name)
	if len(n.heldByClaims) > 0 {
		m.freed++
		m.cluster.Remove(name)
	}
	n.heldByClaims = use.GPUs
	if len(use.GPUs) > 0 {
		if err := m.cluster.Place(placement.Pod{Name: name, Node: n.described.Name, Use: use}); err != nil {
			m.logger.Error(err, "The GPUs of resource claims can't be counted", "node", n.described.Name)
		}
	}
	for _, e := range n.pods {
		if m.pods[e.pod.UID] == e && snapshot.HasGPUsOfClaim(e.pod) {
			m.updatePod(n, e.pod, e) // its GPUs are among those of the claims, or no longer
		}
	}
}
