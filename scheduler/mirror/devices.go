// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// SetPublished sets the GPUs that DRA drivers publish, by node, on nodes on which they may have changed. They count
// from the next Refresh on. The slices must not be changed later.
func (m *Mirror) SetPublished(changed map[string][]snapshot.PublishedGPU) {
	m.lock()
	defer m.unlock()
	if m.view.Published == nil {
		m.view.Published = map[string][]snapshot.PublishedGPU{}
	}
	for name, gpus := range changed {
		if slices.Equal(m.view.Published[name], gpus) {
			continue
		}
		setOrDelete(m.view.Published, name, gpus)
		if n := m.nodes[name]; n != nil {
			n.object, n.generation = nil, 0 // the node is converted again
		}
	}
}

// setOrDelete sets a list in a map that has no empty ones.
func setOrDelete[K comparable, V any](all map[K][]V, key K, list []V) {
	if len(list) == 0 {
		delete(all, key)
		return
	}
	all[key] = list
}

// SetDevices sets which GPUs resource claims hold: their UUIDs, sorted, by node, and those that are a Pod's alone, by
// Pod. It is told of the nodes and Pods only for which that may have changed, and returns the nodes for which something
// has changed, and whether a GPU is held no longer. The changes count from the next Refresh on. The slices must not be
// changed later.
func (m *Mirror) SetDevices(held map[string][]string, ofPods map[types.UID][]string) (changed []string, released bool) {
	m.lock()
	defer m.unlock()
	m.setOwned(ofPods)
	for name, uuids := range held {
		before := m.devices[name]
		if slices.Equal(uuids, before) {
			continue
		}
		changed = append(changed, name)
		setOrDelete(m.devices, name, uuids)
		released = released || slices.ContainsFunc(before, func(uuid string) bool { return !slices.Contains(uuids, uuid) })
		if n := m.nodes[name]; n != nil {
			n.generation = 0 // no snapshot has it: the node is synced again
		}
	}
	slices.Sort(changed)
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
	for uid, uuids := range ofPods {
		if slices.Equal(uuids, m.owned[uid]) {
			continue
		}
		setOrDelete(m.owned, uid, uuids)
		if e := m.pods[uid]; e != nil && m.nodes[e.node] != nil {
			m.nodes[e.node].generation = 0
		}
	}
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
