// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// roomKey is where a scheduling cycle keeps its KeptRoom.
const roomKey fwk.StateKey = "falldio.com/kept-room"

// KeptRoom is what nodes must have left, beyond what the snapshot shows, in the scheduling cycle of a Pod that is not
// ours: for seats whose Pods are not assumed yet, for gangs that the nodes are kept for or that have booked them, and
// for Pods that are being moved. It does not change, so that the filters of many nodes read it at the same time without
// a lock.
type KeptRoom struct {
	pod              *corev1.Pod
	planner          *Planner
	seated, reserved map[string]mirror.Withheld
	// ahead and kept don't count for Pods of DaemonSets, which have only this node to go to.
	ahead map[string]mirror.Withheld
	kept  map[string][]gangRoom
	rank  gangs.Rank
	// turnedAway is true once a node has too little left.
	turnedAway atomic.Bool
}

// gangRoom is what a gang needs of a node that is kept for it, and the Pods that leave for it.
type gangRoom struct {
	rank    gangs.Rank
	needs   mirror.Withheld
	leaving map[types.UID]bool
}

var _ fwk.StateData = (*KeptRoom)(nil)

// Clone implements fwk.StateData.
func (r *KeptRoom) Clone() fwk.StateData { return r }

// Write stores the KeptRoom for the filters of the cycle.
func (r *KeptRoom) Write(state fwk.CycleState) { state.Write(roomKey, r) }

// KeptRoomOf returns the KeptRoom of the cycle; nil if nothing is kept.
func KeptRoomOf(state fwk.CycleState) *KeptRoom {
	data, err := state.Read(roomKey)
	if err != nil {
		return nil
	}
	room, _ := data.(*KeptRoom)
	return room
}

// KeptRoom returns what is kept from a Pod that is not ours, given the snapshot's nodes; nil if nothing is.
func (p *Planner) KeptRoom(pod *corev1.Pod, nodes []fwk.NodeInfo) *KeptRoom {
	if !p.kept.any() && !p.line.Booked() && !p.mirror.HasSeats() && !p.mirror.HasReservations() && !p.reserving.any() {
		return nil
	}
	p.refresh(nodes) // seats of Pods that have been assumed since no longer count
	room := &KeptRoom{pod: pod, planner: p}
	room.seated, room.reserved = p.mirror.WithheldFrom(pod)
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "DaemonSet" {
		room.rank = gangs.Rank{Priority: schedulingv1.PodPriority(pod), Since: pod.CreationTimestamp.Time, UID: pod.UID}
		room.ahead, room.kept = p.line.Rooms(room.rank), p.gangRooms.of(p.kept)
	}
	if len(room.seated)+len(room.reserved)+len(room.ahead)+len(room.kept) == 0 {
		return nil
	}
	return room
}

// On returns what is kept on a node, and for whom.
func (r *KeptRoom) On(info fwk.NodeInfo) (held mirror.Withheld, why string) {
	node := info.Node().Name
	held, why = r.seated[node], "the free resources are held for a gang that is starting"
	if kept := r.keptOn(info); !kept.IsZero() {
		held, why = held.Plus(kept), "the free resources are kept for a gang that waits for others to leave"
	}
	if reserved := r.reserved[node]; reserved.Pods > 0 {
		held, why = held.Plus(reserved), "the free resources are reserved by a MovePlan for other Pods"
	}
	return held, why
}

// keptOn returns what a node must have left for the gangs that it is kept for and that come before the Pod, and for
// those that have booked it. What the Pods hold that leave for a gang is in use, and will be the gang's: it does not
// count twice.
func (r *KeptRoom) keptOn(info fwk.NodeInfo) mirror.Withheld {
	needs, before := mirror.Withheld{}, []gangRoom(nil)
	for _, one := range r.kept[info.Node().Name] {
		if one.rank.Compare(r.rank) <= 0 {
			needs, before = needs.Plus(one.needs), append(before, one)
		}
	}
	if needs.Pods > 0 {
		for _, one := range info.GetPods() {
			there := one.GetPod()
			if slices.ContainsFunc(before, func(kept gangRoom) bool { return kept.leaving[there.UID] }) {
				needs = needs.Minus(requestsOf(there))
			}
		}
	}
	return needs.Plus(r.ahead[info.Node().Name])
}

// requestsOf returns what a Pod holds on its node besides GPUs.
func requestsOf(pod *corev1.Pod) mirror.Withheld {
	use := snapshot.Use(pod, nil)
	return mirror.WithheldFor(&use)
}

// TurnAway records that a node has too little left. The Pod is requeued when what is kept changes, and from time to
// time.
func (r *KeptRoom) TurnAway() {
	if r.turnedAway.CompareAndSwap(false, true) {
		r.planner.RequeueLater(r.pod)
	}
}

// gangRooms are what gangs need of the nodes that are kept for them, as long as these are the same. It is for
// scheduling cycles only.
type gangRooms struct {
	kept  map[string]*keptFor
	nodes map[string][]gangRoom
}

// of returns what is kept on each node. The map must not be changed.
func (c *gangRooms) of(from *keptNodes) map[string][]gangRoom {
	from.mu.Lock()
	defer from.mu.Unlock()
	if c.nodes != nil && maps.Equal(c.kept, from.list) {
		return c.nodes
	}
	c.kept, c.nodes = maps.Clone(from.list), map[string][]gangRoom{}
	for _, one := range from.list {
		for node, needs := range one.nodes {
			c.nodes[node] = append(c.nodes[node], gangRoom{one.rank, needs, one.leaving})
		}
	}
	return c.nodes
}
