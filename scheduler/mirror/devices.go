// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// SetPublished sets the GPUs that DRA drivers publish, by node. They count from the next
// Refresh on. The map must not be changed later.
func (m *Mirror) SetPublished(gpus map[string][]snapshot.PublishedGPU) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.view.Published
	m.view.Published = gpus
	for name, n := range m.nodes {
		if !slices.Equal(before[name], gpus[name]) {
			n.object, n.generation = nil, 0 // the node is converted again
		}
	}
}

// SetDevices sets which GPUs resource claims hold: their UUIDs, sorted, by node, and those that
// are a Pod's alone, by Pod. They count from the next Refresh on. It returns the nodes for which
// something has changed, and whether a GPU is held no longer.
func (m *Mirror) SetDevices(held map[string][]string, ofPods map[types.UID][]string) (changed []string, released bool) {
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
	m.setOwned(ofPods)
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

// setOwned sets which GPUs of resource claims are a Pod's alone.
func (m *Mirror) setOwned(ofPods map[types.UID][]string) {
	for _, pods := range []map[types.UID][]string{ofPods, m.owned} {
		for uid := range pods {
			if e := m.pods[uid]; e != nil && m.nodes[e.node] != nil && !slices.Equal(ofPods[uid], m.owned[uid]) {
				m.nodes[e.node].generation = 0
			}
		}
	}
	m.owned = maps.Clone(ofPods)
}

// placeDevices counts the GPUs of a node that resource claims hold, as those of a Pod that
// can't be evicted, except for those that Pods are known to have: these count with the Pods.
func (m *Mirror) placeDevices(n *node, pods []fwk.PodInfo) {
	use := snapshot.DevicesUse(n.cards, m.devices[n.described.Name])
	use.GPUs = m.withoutThoseOfPods(n, use.GPUs, pods)
	if !slices.Equal(use.GPUs, n.heldByClaims) {
		m.setHeldByClaims(n, use)
	}
	for _, e := range n.pods {
		if m.pods[e.pod.UID] == e && usesClaims(e.pod) {
			m.updatePod(n, e.pod, e) // its GPUs are among those of the claims, or no longer
		}
	}
}

func (m *Mirror) setHeldByClaims(n *node, use placement.Use) {
	name := snapshot.DevicesName(n.described.Name)
	if len(n.heldByClaims) > 0 {
		m.freed++
		m.cluster.Remove(name)
	}
	n.heldByClaims = use.GPUs
	if len(use.GPUs) == 0 {
		return
	}
	if err := m.cluster.Place(placement.Pod{Name: name, Node: n.described.Name, Use: use}); err != nil {
		m.logger.Error(err, "The GPUs of resource claims can't be counted", "node", n.described.Name)
	}
}

// withoutThoseOfPods returns the cards without those that are known to be of Pods on the node, or
// of seats there, whose GPUs come from claims.
func (m *Mirror) withoutThoseOfPods(n *node, cards []int, pods []fwk.PodInfo) []int {
	if len(cards) == 0 {
		return cards
	}
	own := map[int]bool{}
	for _, info := range pods {
		for _, card := range m.cardsOfClaims(n, info.GetPod()) {
			own[card] = true
		}
	}
	if held := m.seated[n.described.Name]; held != nil {
		for e := range held.seats {
			for _, card := range m.cardsOfClaims(n, e.pod) {
				own[card] = true
			}
		}
	}
	return slices.DeleteFunc(cards, func(card int) bool { return own[card] })
}

// cardsOfClaims returns the cards that a Pod on a node, or with a seat there, is known to have
// as a whole from claims of its own: those of its claims, or else, while these are being written,
// those of its seat.
func (m *Mirror) cardsOfClaims(n *node, pod *corev1.Pod) []int {
	if cards, all := n.cards.Indices(m.owned[pod.UID]); all && len(cards) > 0 {
		return cards
	}
	e := m.pods[pod.UID]
	if e == nil || !e.held || e.node != n.described.Name || e.use.Percent != placement.Card || !n.overClaims {
		return nil
	}
	return e.use.GPUs
}

// usesClaims reports whether the GPUs of a Pod are, or may be, devices of resource claims.
func usesClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || snapshot.HasGPUsOfClaim(pod)
}
