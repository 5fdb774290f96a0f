// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// activeReservation is a reservation that has not expired.
type activeReservation struct {
	reservation.Reservation
	// name is its name in the engine, where it is a Pod that has the place.
	name string
	// counted is true while the engine counts it; use is what it holds then.
	counted bool
	use     placement.Use
}

// readReservations parses a node's reservations if they have changed.
func (m *Mirror) readReservations(n *node) {
	text := n.object.Annotations[reservation.Annotation]
	if text == n.annotation {
		return
	}
	n.annotation, n.reservations = text, nil
	list, err := reservation.Of(n.object)
	if err != nil {
		m.logger.Error(err, "A node's reservations can't be read; nothing is kept there", "node", n.object.Name)
	}
	now := m.clock.Now()
	for i := range list {
		if one := &list[i]; one.Holds(now) {
			name := strings.Join([]string{"reservation", n.object.Name, strconv.Itoa(i), one.Plan, one.Pod}, "/")
			n.reservations = append(n.reservations, &activeReservation{Reservation: *one, name: name})
		}
	}
	m.indexReservations(n)
}

// indexReservations records which nodes have reservations, and when the next one expires.
func (m *Mirror) indexReservations(n *node) {
	name := n.object.Name
	if len(n.reservations) == 0 {
		delete(m.reserving, name)
	} else {
		m.reserving[name] = n
	}
	m.nextExpiry = time.Time{}
	for _, n := range m.reserving {
		for _, r := range n.reservations {
			if m.nextExpiry.IsZero() || r.Until.Before(m.nextExpiry) {
				m.nextExpiry = r.Until
			}
		}
	}
}

// forgetReservations drops the reservations of a node that is removed from the engine.
func (m *Mirror) forgetReservations(n *node) {
	if n.annotation == "" {
		return
	}
	n.annotation, n.reservations = "", nil
	m.indexReservations(n)
}

// removeReservations removes a node's reservations from the engine.
func (m *Mirror) removeReservations(n *node) {
	for _, r := range n.reservations {
		if r.counted {
			m.freed++
			m.cluster.Remove(r.name)
			r.counted = false
		}
	}
}

// applyReservations adds a node's reservations to the engine, except those taken up.
func (m *Mirror) applyReservations(n *node) {
	for _, r := range n.reservations {
		if m.takenUp(n, r) {
			continue
		}
		r.use = r.Use(n.described.Name, n.cards, m.cluster)
		if err := m.cluster.Place(placement.Pod{Name: r.name, Node: n.described.Name, Use: r.use}); err != nil {
			m.logger.Error(err, "A reservation can't be counted", "node", n.described.Name, "plan", r.Plan, "pod", r.Pod)
			continue
		}
		r.counted = true
	}
}

// recount updates a node's reservations in the engine when Pods have come to it or left
// it.
func (m *Mirror) recount(name string) {
	if n := m.reserving[name]; n != nil {
		m.removeReservations(n)
		m.applyReservations(n)
	}
}

// takenUp reports whether a reservation's Pod has its node already, or a seat there: both
// would count.
func (m *Mirror) takenUp(n *node, r *activeReservation) bool {
	for _, e := range n.pods {
		if r.TakenUpBy(e.pod, n.cards) {
			return true
		}
	}
	if held := m.seated[n.described.Name]; held != nil {
		for e := range held.seats {
			if r.TakenUpBy(e.pod, n.cards) {
				return true
			}
		}
	}
	return false
}

// Sweep ends the reservations that have expired. It reports whether any have since the
// last call.
func (m *Mirror) Sweep() (ended bool) {
	m.lock()
	defer m.unlock()
	m.expire()
	ended, m.expired = m.expired, false
	return ended
}

func (m *Mirror) expire() {
	if m.nextExpiry.IsZero() {
		return
	}
	now := m.clock.Now()
	if now.Before(m.nextExpiry) {
		return
	}
	for _, n := range m.reserving {
		m.removeReservations(n)
		n.reservations = slices.DeleteFunc(n.reservations, func(r *activeReservation) bool { return !r.Holds(now) })
		m.applyReservations(n)
		m.indexReservations(n)
	}
	m.expired = true
	m.version++
}

// Requester is a gang, or a Pod, that wants a place.
type Requester struct {
	// Pods are the Pods that want a place, by reservation.PodKey.
	Pods     map[string]bool
	Priority int32
	// All is true if no reservation blocks the requester.
	All bool
	// Shadows returns what must stay free on the nodes for others that start later, as Pods that
	// hold it. Nil for none.
	Shadows func(*placement.Cluster) []placement.Pod
}

// blockedBy reports whether a reservation blocks the requester.
func (a *Requester) blockedBy(r *activeReservation) bool {
	return !a.All && r.Blocks(a.Pods, a.Priority)
}

// HasReservations reports whether there are any reservations.
func (m *Mirror) HasReservations() bool {
	m.state.RLock()
	defer m.state.RUnlock()
	return len(m.reserving) > 0
}

// For calls do with the engine's cluster as a requester may use it: without the
// reservations that don't block it, and without what must stay free for others. Changes that
// do makes are undone.
func (m *Mirror) For(requester *Requester, do func(*placement.Cluster)) {
	m.lockEngine()
	defer m.unlockEngine()
	switch {
	case len(m.reserving) > 0:
		m.withBlockingOnly(requester, func(cluster *placement.Cluster) { m.inShadow(requester, cluster, do) })
	case requester.Shadows != nil:
		m.inShadow(requester, m.cluster, do)
	default:
		do(m.cluster)
	}
}

// inShadow calls do while what must stay free for others is held.
func (m *Mirror) inShadow(requester *Requester, cluster *placement.Cluster, do func(*placement.Cluster)) {
	if requester.Shadows == nil {
		do(cluster)
		return
	}
	cluster.Try(func() bool {
		for _, shadow := range requester.Shadows(cluster) {
			if err := cluster.Place(shadow); err != nil {
				m.logger.Error(err, "What is reserved can't be kept free", "node", shadow.Node)
			}
		}
		do(cluster)
		return false
	})
}

func (m *Mirror) withBlockingOnly(requester *Requester, do func(*placement.Cluster)) {
	m.cluster.Try(func() bool {
		m.eachReservation(func(_ *node, r *activeReservation) {
			if r.counted && !requester.blockedBy(r) {
				m.cluster.Remove(r.name)
			}
		})
		do(m.cluster)
		return false
	})
}

func (m *Mirror) eachReservation(do func(*node, *activeReservation)) {
	for _, n := range m.reserving {
		for _, r := range n.reservations {
			do(n, r)
		}
	}
}

// WithoutReservations calls do with the engine's cluster without any reservations, if some
// block the requester, and returns how many GPUs those hold. Changes that do makes are
// undone.
func (m *Mirror) WithoutReservations(requester *Requester, do func(*placement.Cluster)) (gpus int) {
	m.lockEngine()
	defer m.unlockEngine()
	blocked := false
	m.eachReservation(func(_ *node, r *activeReservation) {
		if r.counted && requester.blockedBy(r) {
			blocked = true
			gpus += len(r.use.GPUs)
		}
	})
	if blocked {
		m.withBlockingOnly(&Requester{All: true}, do)
	}
	return gpus
}

// BlockingKey returns a key for the reservations that block the requester.
func (m *Mirror) BlockingKey(requester *Requester) string {
	m.state.RLock()
	defer m.state.RUnlock()
	var names []string
	m.eachReservation(func(_ *node, r *activeReservation) {
		if r.counted && requester.blockedBy(r) {
			names = append(names, r.name)
		}
	})
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Destination is where a Pod is moved to.
type Destination struct {
	Node string
	// Cards are the GPUs' indices; nil if any will do, as the node has no agent.
	Cards []int
	// Gone is true if the node no longer lists some of the cards, Paused if it lists them but
	// the kubelet does not offer them at the moment.
	Gone, Paused bool

	Until time.Time
}

// Destinations returns where Pods are moved to, by reservation.PodKey.
func (m *Mirror) Destinations(pods map[string]bool) map[string]Destination {
	m.state.RLock()
	defer m.state.RUnlock()
	var found map[string]Destination
	m.eachReservation(func(n *node, r *activeReservation) {
		if r.Kind != reservation.Move || !pods[r.Pod] {
			return
		}
		one := Destination{Node: n.described.Name, Cards: r.Indices(n.cards), Until: r.Until}
		one.Paused = n.cards.Paused() && (len(one.Cards) > 0 || snapshot.SlicePercent(placement.NewAmounts(r.Others)) > 0)
		one.Gone = len(one.Cards) < len(r.GPUs) && !n.cards.Anonymous()
		if known, several := found[r.Pod]; several && !one.supersedes(&known) {
			return
		}
		if found == nil {
			found = map[string]Destination{}
		}
		found[r.Pod] = one
	})
	return found
}

// supersedes orders the destinations that several plans have for a Pod: the one with the
// latest expiry is the latest.
func (d *Destination) supersedes(other *Destination) bool {
	if order := d.Until.Compare(other.Until); order != 0 {
		return order > 0
	}
	return d.Node < other.Node
}

// Moving returns the Pods that are being moved, by reservation.PodKey.
func (m *Mirror) Moving() map[string]bool {
	m.lock()
	defer m.unlock()
	m.expire()
	pods := map[string]bool{}
	m.eachReservation(func(_ *node, r *activeReservation) {
		if r.Kind == reservation.Move {
			pods[r.Pod] = true
		}
	})
	return pods
}

// NodesFor returns the nodes that have reservations for any of the given Pods.
func (m *Mirror) NodesFor(pods map[string]bool) map[string]bool {
	m.state.RLock()
	defer m.state.RUnlock()
	nodes := map[string]bool{}
	m.eachReservation(func(n *node, r *activeReservation) {
		if pods[r.Pod] {
			nodes[n.described.Name] = true
		}
	})
	return nodes
}

// WithheldFrom returns what is withheld from a Pod that is not ours, by node: by seats whose Pods the snapshot does not
// show, and by reservations.
func (m *Mirror) WithheldFrom(pod *corev1.Pod) (seated, reserved map[string]Withheld) {
	m.state.RLock()
	defer m.state.RUnlock()
	seated, reserved = make(map[string]Withheld, len(m.seated)), map[string]Withheld{}
	for node, held := range m.seated {
		seated[node] = held.Withheld
	}
	requester := Requester{Pods: map[string]bool{reservation.PodKey(pod.Namespace, pod.Name): true}, Priority: schedulingv1.PodPriority(pod)}
	m.eachReservation(func(n *node, r *activeReservation) {
		if r.counted && requester.blockedBy(r) {
			reserved[n.described.Name] = reserved[n.described.Name].Plus(WithheldFor(&r.use))
		}
	})
	return seated, reserved
}

// ReservedGPUs returns how many GPUs are reserved.
func (m *Mirror) ReservedGPUs() float64 {
	m.state.RLock()
	defer m.state.RUnlock()
	percent := 0
	m.eachReservation(func(_ *node, r *activeReservation) {
		if r.counted {
			percent += snapshot.UsePercent(&r.use)
		}
	})
	return float64(percent) / placement.Card
}
