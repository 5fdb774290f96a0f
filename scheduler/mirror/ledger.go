// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Hold keeps a place for a Pod until the snapshot shows it there, or until Release.
func (m *Mirror) Hold(pod *corev1.Pod, place placement.Place) {
	m.lock()
	defer m.unlock()
	delete(m.orphaned, pod.UID)
	e := &entry{pod: pod, node: place.Node, use: place.Use, held: true}
	if old := m.pods[pod.UID]; old != nil { // of an earlier plan
		if old.seen {
			e.previous = old.pod
		}
		m.remove(pod.UID, old)
		m.recount(old.node)
	}
	m.place(pod.UID, e)
	held := m.seated[place.Node]
	if held == nil {
		held = &nodeSeats{seats: map[*entry]bool{}}
		m.seated[place.Node] = held
	}
	e.withheld = WithheldFor(&e.use)
	held.Withheld = held.Plus(e.withheld)
	held.seats[e] = true
	m.recount(place.Node)
}

// release no longer counts the seat of a Pod: the snapshot shows the Pod, or it is removed.
func (m *Mirror) release(e *entry) {
	held := m.seated[e.node]
	if held == nil {
		return
	}
	held.Withheld = held.Minus(e.withheld)
	delete(held.seats, e)
	if len(held.seats) == 0 {
		delete(m.seated, e.node)
	}
}

// Release gives places back. Those of Pods that the snapshot shows end with the Pods. It does not wait for a search:
// the places are free once that has ended.
func (m *Mirror) Release(uids []types.UID) {
	m.released.add(uids)
	m.settleIfFree()
}

// give gives a place back.
func (m *Mirror) give(uid types.UID) {
	delete(m.orphaned, uid)
	e := m.pods[uid]
	if e == nil || !e.held {
		return
	}
	if !e.seen {
		m.remove(uid, e)
	}
	e.held = false
	m.recount(e.node)
}

// Assignment returns the annotation that names a Pod's cards for its node; empty if it
// has none, or they have no names. It returns an error if the Pod's place was lost,
// because its node was gone for a moment.
func (m *Mirror) Assignment(pod *corev1.Pod) (string, error) {
	m.state.RLock()
	defer m.state.RUnlock()
	e := m.pods[pod.UID]
	if e == nil || !e.held || e.lost || m.nodes[e.node] == nil {
		return "", fmt.Errorf("the place of Pod %s/%s was lost: its node was removed or has changed", pod.Namespace, pod.Name)
	}
	n := m.nodes[e.node]
	return n.cards.Assignment(pod, e.use.GPUs)
}

// Intact reports whether a Pod's place is still good: the node is there and takes the Pod,
// and its cards are not broken.
func (m *Mirror) Intact(uid types.UID) bool {
	m.state.RLock()
	defer m.state.RUnlock()
	e := m.pods[uid]
	if e == nil || !e.held || e.lost { // a place that is not held is a guess
		return false
	}
	n := m.nodes[e.node]
	if n == nil || !n.ours || n.described.Closed && snapshot.ClosedTo(n.counted, e.pod) {
		return false
	}
	for _, card := range e.use.GPUs {
		if card >= len(n.described.GPUs) || n.described.GPUs[card].Broken {
			return false
		}
	}
	return true
}

// Shows reports whether the last snapshot had a Pod on a node, or did not have the node.
func (m *Mirror) Shows(uid types.UID, node string) bool {
	m.state.RLock()
	defer m.state.RUnlock()
	if n := m.nodes[node]; n == nil || !n.ours {
		return true
	}
	e := m.pods[uid]
	return e != nil && e.seen && e.node == node
}

// Has reports whether a node of the last snapshot is in one of the scheduler's pools.
func (m *Mirror) Has(node string) bool {
	m.state.RLock()
	defer m.state.RUnlock()
	n := m.nodes[node]
	return n != nil && n.ours
}

// CardsOverClaims returns the UUIDs of the cards of a Pod's seat, if Pods get the GPUs of its node
// by resource claims.
func (m *Mirror) CardsOverClaims(uid types.UID) (node string, uuids []string) {
	m.state.RLock()
	defer m.state.RUnlock()
	e := m.pods[uid]
	if e == nil || !e.held || e.lost || len(e.use.GPUs) == 0 {
		return "", nil
	}
	return e.node, m.cardsOverClaims(e.node, &e.use)
}

// NamesOverClaims returns the UUIDs of the cards of a place, if Pods get the GPUs of its node by
// resource claims.
func (m *Mirror) NamesOverClaims(node string, use *placement.Use) []string {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.cardsOverClaims(node, use)
}

// cardsOverClaims returns the UUIDs of whole cards of a node, if Pods get them by resource claims.
func (m *Mirror) cardsOverClaims(node string, use *placement.Use) []string {
	n := m.nodes[node]
	if n == nil || !n.overClaims || use.Percent != placement.Card {
		return nil
	}
	return n.cards.Names(use.GPUs)
}

// SeatedOverClaims returns the UUIDs of the cards of all seats whose Pods the snapshot does not
// show, by node, as far as Pods get them by resource claims.
func (m *Mirror) SeatedOverClaims() map[string][]string {
	m.state.RLock()
	defer m.state.RUnlock()
	var all map[string][]string
	for _, held := range m.seated {
		for e := range held.seats {
			if uuids := m.cardsOverClaims(e.node, &e.use); len(uuids) > 0 {
				if all == nil {
					all = map[string][]string{}
				}
				all[e.node] = append(all[e.node], uuids...)
			}
		}
	}
	return all
}
