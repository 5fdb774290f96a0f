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

// Refresh makes the mirror equal to the snapshot, whose nodes these are.
func (m *Mirror) Refresh(infos []fwk.NodeInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass++
	m.expire()
	if !m.sameNodes(infos) {
		m.match(infos)
	}
	for i, info := range infos {
		n := m.order[i]
		if generation := info.GetGeneration(); n.generation != generation || m.stale {
			n.generation = generation
			m.version++
			m.follow(n, info)
		}
	}
	m.stale = false
}

// sameNodes reports whether the snapshot has the nodes of the last one, in its order.
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

// match finds the nodes of a snapshot by their names and removes those that are
// not in it.
func (m *Mirror) match(infos []fwk.NodeInfo) {
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
			m.disown(n)
			delete(m.nodes, name)
		}
	}
}

// follow brings one node up to date.
func (m *Mirror) follow(n *node, info fwk.NodeInfo) {
	m.lift(n) // the Pods come before what is reserved
	if object := info.Node(); n.object != object || m.stale {
		n.object = object
		m.describe(n)
	}
	if !n.ours {
		return
	}
	// Those of which it is known what they have come before those that get what is
	// left, by a guess.
	guesses := false
	for _, podInfo := range info.GetPods() {
		if pod := podInfo.GetPod(); m.mustGuess(n, pod) {
			guesses = true
		} else {
			m.see(n, pod)
		}
	}
	if guesses {
		for _, podInfo := range info.GetPods() {
			m.see(n, podInfo.GetPod())
		}
	}
	for uid, e := range n.pods {
		if e.pass != m.pass {
			delete(n.pods, uid)
			m.remove(uid, e)
		}
	}
	m.keep(n)
}

// mustGuess reports whether nothing says which GPUs a Pod has that wants some.
func (m *Mirror) mustGuess(n *node, pod *corev1.Pod) bool {
	if m.pods[pod.UID] != nil || m.promised[pod.UID].node == n.described.Name || !snapshot.WantsGPUs(pod) {
		return false
	}
	_, known := n.cards.Assigned(pod)
	return !known
}

// describe tells the engine what a node is.
func (m *Mirror) describe(n *node) {
	if !m.Owns(n.object) {
		m.disown(n)
		return
	}
	described, cards, err := m.view.Node(n.object)
	if err != nil {
		m.logger.Error(err, "A node's inventory can't be read; it gets no Pods with GPUs", "node", n.object.Name)
	}
	before := n.cards
	n.cards = cards
	if !n.ours || !sameNode(&described, &n.described) {
		if err := m.cluster.SetNode(described); err != nil {
			m.logger.Error(err, "A node can't be used", "node", n.object.Name)
			m.disown(n)
			return
		}
	}
	wasOurs := n.ours
	n.described, n.ours = described, true
	if wasOurs && !cards.Same(before) {
		m.renumber(n, before)
	}
	m.readReservations(n)
}

// renumber follows a change of the numbers by which a node's cards are known. A Pod
// with a seat that has lost a card has no place any more.
func (m *Mirror) renumber(n *node, before snapshot.Cards) {
	for uid, e := range m.pods {
		if e.node != n.described.Name || !snapshot.WantsGPUs(e.pod) {
			continue
		}
		use := e.use
		if assigned, known := n.cards.Assigned(e.pod); known {
			use = snapshot.Use(e.pod, assigned)
		} else {
			use = snapshot.Use(e.pod, n.cards.Translate(before, e.use.GPUs))
		}
		e.lost = e.lost || e.held && len(use.GPUs) < len(e.use.GPUs)
		m.cluster.Remove(string(uid))
		e.use = use
		m.place(uid, e)
	}
}

// sameNode reports whether nothing has changed that the engine looks at.
func sameNode(a, b *placement.Node) bool {
	return a.CPU == b.CPU && a.Memory == b.Memory && a.Slots == b.Slots && a.Model == b.Model && a.Pool == b.Pool &&
		a.Traits == b.Traits && a.Closed == b.Closed && slices.Equal(a.Domains, b.Domains) && slices.Equal(a.GPUs, b.GPUs)
}

// disown removes a node from the engine, with all that it has.
func (m *Mirror) disown(n *node) {
	if !n.ours {
		return
	}
	name := n.described.Name
	m.cluster.RemoveNode(name)
	maps.DeleteFunc(m.pods, func(uid types.UID, e *entry) bool {
		if e.node == name && e.held && len(e.use.GPUs) > 0 {
			m.promised[uid] = promise{node: name, cards: n.cards, gpus: e.use.GPUs}
		}
		return e.node == name
	})
	clear(n.pods)
	delete(m.claims, name)
	m.forgetReservations(n)
	n.ours = false
}

// see takes notice of a Pod of the snapshot.
func (m *Mirror) see(n *node, pod *corev1.Pod) {
	e := m.pods[pod.UID]
	switch {
	case e == nil:
		e = &entry{pod: pod, node: n.described.Name}
		if before := m.promised[pod.UID]; before.node == e.node {
			e.use.GPUs = n.cards.Translate(before.cards, before.gpus)
		}
		e.use = m.useOf(n, e)
		m.place(pod.UID, e)
	case e.held && !e.seen && (e.node != n.described.Name || e.former == pod):
		return // the snapshot shows a former attempt
	case e.node != n.described.Name:
		m.move(n, pod, e)
	case e.pod != pod:
		m.update(n, pod, e)
	}
	if !e.seen {
		e.seen = true
		if e.held {
			m.unclaim(e)
		}
	}
	e.pass = m.pass
	n.pods[pod.UID] = e
}

// move follows a Pod that is on another node than it was seated on.
func (m *Mirror) move(n *node, pod *corev1.Pod, e *entry) {
	if old := m.nodes[e.node]; old != nil {
		delete(old.pods, pod.UID)
	}
	m.remove(pod.UID, e)
	*e = entry{pod: pod, node: n.described.Name}
	e.use = m.useOf(n, e)
	m.place(pod.UID, e)
}

// update follows a Pod that has changed: what is written in it is the truth.
func (m *Mirror) update(n *node, pod *corev1.Pod, e *entry) {
	e.pod = pod
	use := m.useOf(n, e)
	if sameUse(&use, &e.use) {
		return
	}
	m.cluster.Remove(string(pod.UID))
	e.use = use
	m.place(pod.UID, e)
}

func sameUse(a, b *placement.Use) bool {
	return a.CPU == b.CPU && a.Memory == b.Memory && a.Percent == b.Percent && slices.Equal(a.GPUs, b.GPUs)
}

func (m *Mirror) place(uid types.UID, e *entry) {
	m.pods[uid] = e
	if err := m.cluster.Place(placement.Pod{Name: string(uid), Node: e.node, Use: e.use}); err != nil {
		m.logger.Error(err, "A Pod's place can't be counted", "pod", e.pod.Name, "node", e.node)
	}
}

// remove takes a Pod off the engine, unless it has got another entry since.
func (m *Mirror) remove(uid types.UID, e *entry) {
	if m.pods[uid] != e {
		return
	}
	m.cluster.Remove(string(uid))
	delete(m.pods, uid)
	if e.held && !e.seen {
		m.unclaim(e)
	}
}
