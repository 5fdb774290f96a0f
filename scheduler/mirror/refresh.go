// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

// Refresh makes the mirror equal to the snapshot with these nodes.
func (m *Mirror) Refresh(infos []fwk.NodeInfo) {
	m.lock()
	defer m.unlock()
	m.pass++
	m.expire()
	if !m.sameNodes(infos) {
		m.matchNodes(infos)
	}
	for i, info := range infos {
		n := m.order[i]
		if generation := info.GetGeneration(); n.generation != generation {
			n.generation = generation
			m.version++
			m.syncNode(n, info)
		} else if n.outdated && n.ours {
			m.redescribe(n)
		}
	}
	m.checkpointIfDue()
}

// sameNodes reports whether the snapshot has the nodes of the last one, in the same
// order.
func (m *Mirror) sameNodes(infos []fwk.NodeInfo) bool {
	if len(infos) != len(m.order) {
		return false
	}
	for i, info := range infos {
		if m.order[i].info != info {
			return false
		}
	}
	return true
}

// matchNodes finds the nodes of a snapshot by name and removes those that are not in it.
func (m *Mirror) matchNodes(infos []fwk.NodeInfo) {
	m.order = m.order[:0]
	for _, info := range infos {
		name := info.Node().Name
		n := m.nodes[name]
		if n == nil {
			n = &node{pods: map[types.UID]*entry{}}
			m.nodes[name] = n
		}
		if n.info != info {
			n.info, n.generation = info, 0
		}
		n.pass = m.pass
		m.order = append(m.order, n)
	}
	for name, n := range m.nodes {
		if n.pass != m.pass {
			m.dropNode(n)
			m.census.replace(n.counted, nil)
			delete(m.nodes, name)
			m.version++
			m.admissions++
		}
	}
}

// syncNode brings one node up to date.
func (m *Mirror) syncNode(n *node, info fwk.NodeInfo) {
	m.removeReservations(n) // Pods are counted before reservations
	if object := info.Node(); n.object != object || n.outdated {
		if n.object != object && (n.object == nil || filters.AdmissionChanged(n.object, object)) {
			m.admissions++
		}
		n.object = object
		if n.counted != object {
			m.census.replace(n.counted, object)
			n.counted = object
		}
		n.outdated = false
		m.updateNode(n)
	}
	if !n.ours {
		return
	}
	pods := info.GetPods()
	m.placeDevices(n, pods)
	snapshot.KnownFirst(podsOf(pods), func(pod *corev1.Pod) bool { return m.mustGuess(n, pod) }, func(pod *corev1.Pod) { m.observe(n, pod) })
	for uid, e := range n.pods {
		if e.pass != m.pass {
			delete(n.pods, uid)
			m.remove(uid, e)
		}
	}
	m.applyReservations(n)
}

// podsOf returns the Pods of a node of the snapshot.
func podsOf(infos []fwk.PodInfo) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, info := range infos {
			if !yield(info.GetPod()) {
				return
			}
		}
	}
}

// mustGuess reports whether a Pod wants GPUs but nothing says which ones it has.
func (m *Mirror) mustGuess(n *node, pod *corev1.Pod) bool {
	if m.pods[pod.UID] != nil || m.orphaned[pod.UID].node == n.described.Name || !snapshot.WantsCards(pod) {
		return false
	}
	_, known := n.cards.Assigned(pod)
	return !known
}

// updateNode updates a node in the engine.
func (m *Mirror) updateNode(n *node) {
	if !m.Owns(n.object) {
		m.dropNode(n)
		return
	}
	described, cards, err := m.view.Node(n.object)
	if err != nil {
		m.logger.Error(err, "A node's inventory can't be read; it gets no Pods with GPUs", "node", n.object.Name)
	}
	before := n.cards
	n.cards = cards
	if !n.ours || !sameNode(&described, &n.described) {
		m.freed++
		m.nodesVersion++
		if err := m.cluster.SetNode(described); err != nil {
			m.logger.Error(err, "A node can't be used", "node", n.object.Name)
			m.dropNode(n)
			return
		}
	}
	wasOurs, modelChanged := n.ours, n.described.Model != described.Model
	n.described, n.ours, n.overClaims = described, true, snapshot.OverDRA(n.object) || len(m.view.Published[described.Name]) > 0
	if wasOurs && !cards.Same(before) {
		m.renumber(n, before)
	}
	if wasOurs && modelChanged { // the Pods' accounts have the model
		m.eachOn(n, func(_ types.UID, e *entry) {
			m.count(e, -1)
			m.count(e, 1)
		})
	}
	m.readReservations(n)
}

// renumber adapts the Pods of a node to changed indices of its cards. A Pod whose seat
// has lost a card has lost its place.
func (m *Mirror) renumber(n *node, before snapshot.Cards) {
	m.eachOn(n, func(uid types.UID, e *entry) {
		if !snapshot.WantsCards(e.pod) && len(e.use.GPUs) == 0 {
			return
		}
		use := e.use
		if assigned, known := n.cards.Assigned(e.pod); known {
			use = snapshot.Use(e.pod, assigned)
		} else {
			use = snapshot.Use(e.pod, n.cards.Translate(before, e.use.GPUs))
		}
		e.lost = e.lost || e.held && len(use.GPUs) < len(e.use.GPUs)
		m.freed++
		m.cluster.Remove(string(uid))
		e.use = use
		m.place(uid, e)
	})
}

// eachOn calls do with all Pods that hold something on a node: those that the snapshot
// shows there, and those with a seat that it does not show.
func (m *Mirror) eachOn(n *node, do func(types.UID, *entry)) {
	for uid, e := range n.pods {
		if m.pods[uid] == e { // else it has got another seat since
			do(uid, e)
		}
	}
	if held := m.seated[n.described.Name]; held != nil {
		for e := range held.seats {
			do(e.pod.UID, e)
		}
	}
}

// sameNode reports whether nothing has changed that the engine considers.
func sameNode(a, b *placement.Node) bool {
	return a.CPU == b.CPU && a.Memory == b.Memory && a.Slots == b.Slots && a.Hostname == b.Hostname && a.Model == b.Model && a.Pool == b.Pool &&
		a.Traits == b.Traits && slices.Equal(a.Others, b.Others) && a.Closed == b.Closed && slices.Equal(a.Domains, b.Domains) && slices.Equal(a.GPUs, b.GPUs)
}

// dropNode removes a node from the engine, with everything on it.
func (m *Mirror) dropNode(n *node) {
	if !n.ours {
		return
	}
	name := n.described.Name
	m.nodesVersion++
	m.cluster.RemoveNode(name)
	m.eachOn(n, func(uid types.UID, e *entry) {
		if e.held && len(e.use.GPUs) > 0 {
			m.orphaned[uid] = orphanedSeat{node: name, cards: n.cards, gpus: e.use.GPUs}
		}
		m.forget(uid)
	})
	clear(n.pods)
	delete(m.seated, name)
	m.forgetReservations(n)
	n.ours, n.heldByClaims = false, nil
}

// observe updates the engine with a Pod of the snapshot.
func (m *Mirror) observe(n *node, pod *corev1.Pod) {
	e := m.pods[pod.UID]
	switch {
	case e == nil:
		e = &entry{pod: pod, node: n.described.Name}
		if before := m.orphaned[pod.UID]; before.node == e.node {
			e.use.GPUs = n.cards.Translate(before.cards, before.gpus)
		}
		e.use = m.useOf(n, e)
		m.place(pod.UID, e)
	case e.held && !e.seen && e.node != n.described.Name:
		e.elsewhere = n // an earlier attempt, or another scheduler's Binding
		return
	case e.held && !e.seen && e.previous == pod:
		return // the snapshot shows an earlier attempt
	case e.node != n.described.Name:
		m.movePod(n, pod, e)
	case e.pod != pod:
		m.updatePod(n, pod, e)
	}
	if !e.seen {
		e.seen = true
		if e.held {
			m.release(e)
		}
	}
	e.pass = m.pass
	n.pods[pod.UID] = e
}

// movePod handles a Pod that is on another node than its entry.
func (m *Mirror) movePod(n *node, pod *corev1.Pod, e *entry) {
	if old := m.nodes[e.node]; old != nil {
		delete(old.pods, pod.UID)
	}
	m.remove(pod.UID, e)
	*e = entry{pod: pod, node: n.described.Name}
	e.use = m.useOf(n, e)
	m.place(pod.UID, e)
}

// updatePod handles a Pod that has changed: what is written in it takes precedence.
func (m *Mirror) updatePod(n *node, pod *corev1.Pod, e *entry) {
	e.pod = pod
	use := m.useOf(n, e)
	if sameUse(&use, &e.use) {
		return
	}
	m.freed++
	m.cluster.Remove(string(pod.UID))
	e.use = use
	m.place(pod.UID, e)
}

func sameUse(a, b *placement.Use) bool {
	return a.CPU == b.CPU && a.Memory == b.Memory && slices.Equal(a.Others, b.Others) && a.Percent == b.Percent && slices.Equal(a.GPUs, b.GPUs)
}

func (m *Mirror) place(uid types.UID, e *entry) {
	m.know(uid, e)
	if err := m.cluster.Place(placement.Pod{Name: string(uid), Node: e.node, Use: e.use}); err != nil {
		m.logger.Error(err, "A Pod's place can't be counted", "pod", e.pod.Name, "node", e.node)
	}
}

// remove removes a Pod from the engine, unless it has got another entry since.
func (m *Mirror) remove(uid types.UID, e *entry) {
	if m.pods[uid] != e {
		return
	}
	m.freed++
	m.cluster.Remove(string(uid))
	m.forget(uid)
	if e.held && !e.seen {
		m.release(e)
	}
}
