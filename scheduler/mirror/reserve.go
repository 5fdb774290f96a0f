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
)

// kept is a reservation that has not ended.
type kept struct {
	reservation.Reservation
	// name is by which the engine knows it: as a Pod that has the place.
	name string
	// counted is true while the engine knows it; use is what it has then.
	counted bool
	use     placement.Use
}

// readReservations takes notice of a node's reservations if they have changed.
func (m *Mirror) readReservations(n *node) {
	text := n.object.Annotations[reservation.Annotation]
	if text == n.reservations {
		return
	}
	n.reservations, n.kept = text, nil
	list, err := reservation.Of(n.object)
	if err != nil {
		m.logger.Error(err, "A node's reservations can't be read; nothing is kept there", "node", n.object.Name)
	}
	now := m.clock.Now()
	for i := range list {
		if one := &list[i]; one.Holds(now) {
			name := strings.Join([]string{"reservation", n.object.Name, strconv.Itoa(i), one.Plan, one.Pod}, "/")
			n.kept = append(n.kept, &kept{Reservation: *one, name: name})
		}
	}
	m.file(n)
}

// file remembers which nodes have reservations, and when the next one ends.
func (m *Mirror) file(n *node) {
	name := n.object.Name
	if len(n.kept) == 0 {
		delete(m.reserving, name)
	} else {
		m.reserving[name] = n
	}
	m.nextEnd = time.Time{}
	for _, its := range m.reserving {
		for _, k := range its.kept {
			if m.nextEnd.IsZero() || k.Until.Before(m.nextEnd) {
				m.nextEnd = k.Until
			}
		}
	}
}

// forgetReservations drops those of a node that is taken off the engine.
func (m *Mirror) forgetReservations(n *node) {
	if n.reservations == "" {
		return
	}
	n.reservations, n.kept = "", nil
	m.file(n)
}

// lift takes a node's reservations off the engine.
func (m *Mirror) lift(n *node) {
	for _, k := range n.kept {
		if k.counted {
			m.cluster.Remove(k.name)
			k.counted = false
		}
	}
}

// keep lets those reservations of a node count that nobody has taken up.
func (m *Mirror) keep(n *node) {
	for _, k := range n.kept {
		if m.takenUp(n, k) {
			continue
		}
		k.use = k.Use(n.described.Name, n.cards, m.cluster)
		if err := m.cluster.Place(placement.Pod{Name: k.name, Node: n.described.Name, Use: k.use}); err != nil {
			m.logger.Error(err, "A reservation can't be counted", "node", n.described.Name, "plan", k.Plan, "pod", k.Pod)
			continue
		}
		k.counted = true
	}
}

// recount lets a node's reservations count as they have to when others have come
// to it or left it.
func (m *Mirror) recount(name string) {
	if n := m.reserving[name]; n != nil {
		m.lift(n)
		m.keep(n)
	}
}

// takenUp reports whether a reservation's Pod has its node, or a seat there: it would
// count twice.
func (m *Mirror) takenUp(n *node, k *kept) bool {
	for _, e := range n.pods {
		if k.TakenUpBy(e.pod, n.cards) {
			return true
		}
	}
	if its := m.claims[n.described.Name]; its != nil {
		for e := range its.seats {
			if k.TakenUpBy(e.pod, n.cards) {
				return true
			}
		}
	}
	return false
}

// Sweep ends the reservations whose time is over. It returns true if any have ended
// since it was called the last time.
func (m *Mirror) Sweep() (ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	ended, m.ended = m.ended, false
	return ended
}

func (m *Mirror) expire() {
	if m.nextEnd.IsZero() {
		return
	}
	now := m.clock.Now()
	if now.Before(m.nextEnd) {
		return
	}
	for _, n := range m.reserving {
		m.lift(n)
		n.kept = slices.DeleteFunc(n.kept, func(k *kept) bool { return !k.Holds(now) })
		m.keep(n)
		m.file(n)
	}
	m.ended = true
	m.version++
}

// Requester is a gang, or a Pod, that wants a place.
type Requester struct {
	// Pods are those that want a place, by reservation.PodKey.
	Pods     map[string]bool
	Priority int32
	// All is true if no reservation blocks the requester.
	All bool
}

// blockedBy reports whether a reservation blocks the requester.
func (a *Requester) blockedBy(k *kept) bool { return !a.All && k.Blocks(a.Pods, a.Priority) }

// HasReservations reports whether anything is kept.
func (m *Mirror) HasReservations() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.reserving) > 0
}

// For calls do with the engine's cluster as it is for a requester: without the reservations
// that do not stand in the way. What do changes is undone.
func (m *Mirror) For(requester *Requester, do func(*placement.Cluster)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.reserving) == 0 {
		do(m.cluster)
		return
	}
	m.without(requester, do)
}

func (m *Mirror) without(requester *Requester, do func(*placement.Cluster)) {
	m.cluster.Try(func() bool {
		m.each(func(_ *node, k *kept) {
			if k.counted && !requester.blockedBy(k) {
				m.cluster.Remove(k.name)
			}
		})
		do(m.cluster)
		return false
	})
}

func (m *Mirror) each(do func(*node, *kept)) {
	for _, n := range m.reserving {
		for _, k := range n.kept {
			do(n, k)
		}
	}
}

// Withheld calls do with the engine's cluster without any reservations, if some stand
// in the way of the requester, and returns how many GPUs those keep. What do changes is
// undone.
func (m *Mirror) Withheld(requester *Requester, do func(*placement.Cluster)) (gpus int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := false
	m.each(func(_ *node, k *kept) {
		if k.counted && requester.blockedBy(k) {
			others = true
			gpus += len(k.use.GPUs)
		}
	})
	if others {
		m.without(&Requester{All: true}, do)
	}
	return gpus
}

// Heeded identifies the reservations that block the requester.
func (m *Mirror) Heeded(requester *Requester) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	m.each(func(_ *node, k *kept) {
		if k.counted && requester.blockedBy(k) {
			names = append(names, k.name)
		}
	})
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Destination is where a Pod is moved to.
type Destination struct {
	Node string
	// Cards are the GPUs' indices; nil if it does not matter which, as the node has no
	// agent.
	Cards []int
	// Gone is true if the node no longer lists some of the cards.
	Gone  bool
	Until time.Time
}

// Destinations returns where Pods are moved to, by reservation.PodKey.
func (m *Mirror) Destinations(pods map[string]bool) map[string]Destination {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found map[string]Destination
	m.each(func(n *node, k *kept) {
		if k.Kind != reservation.Move || !pods[k.Pod] {
			return
		}
		one := Destination{Node: n.described.Name, Cards: k.Indices(n.cards), Until: k.Until}
		one.Gone = len(one.Cards) < len(k.GPUs) && !n.cards.Anonymous()
		if known, several := found[k.Pod]; several && !one.supersedes(&known) {
			return
		}
		if found == nil {
			found = map[string]Destination{}
		}
		found[k.Pod] = one
	})
	return found
}

// supersedes orders the destinations that several plans have for a Pod: the one that
// is kept the longest is the latest.
func (d *Destination) supersedes(other *Destination) bool {
	if order := d.Until.Compare(other.Until); order != 0 {
		return order > 0
	}
	return d.Node < other.Node
}

// Moving returns the Pods that are moved, by reservation.PodKey.
func (m *Mirror) Moving() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	pods := map[string]bool{}
	m.each(func(_ *node, k *kept) {
		if k.Kind == reservation.Move {
			pods[k.Pod] = true
		}
	})
	return pods
}

// NodesFor returns the nodes on which something is kept for any of some Pods.
func (m *Mirror) NodesFor(pods map[string]bool) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := map[string]bool{}
	m.each(func(n *node, k *kept) {
		if pods[k.Pod] {
			nodes[n.described.Name] = true
		}
	})
	return nodes
}

// Reserved returns what reservations keep of a node from a Pod.
func (m *Mirror) Reserved(name string, pod *corev1.Pod) Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	claim := Claim{}
	n := m.reserving[name]
	if n == nil {
		return claim
	}
	requester := Requester{Pods: map[string]bool{reservation.PodKey(pod.Namespace, pod.Name): true}, Priority: schedulingv1.PodPriority(pod)}
	for _, k := range n.kept {
		if k.counted && requester.blockedBy(k) {
			claim.CPU += k.use.CPU
			claim.Memory += k.use.Memory
			claim.Pods++
		}
	}
	return claim
}

// ReservedGPUs is how many GPUs are kept.
func (m *Mirror) ReservedGPUs() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	percent := 0
	m.each(func(_ *node, k *kept) {
		if k.counted {
			percent += len(k.use.GPUs) * k.use.Percent
		}
	})
	return float64(percent) / placement.Card
}
