// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// nominations are the nodes that preempting gangs will get places on: what the Pods have in
// status.nominatedNodeName, so that others see what the victims leave for. Its zero value has none.
type nominations struct {
	mu sync.Mutex
	// byGroup has the node of each Pod.
	byGroup map[string]map[types.UID]string
}

func (n *nominations) set(group string, nodes map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byGroup == nil {
		n.byGroup = map[string]map[types.UID]string{}
	}
	n.byGroup[group] = nodes
}

// of returns the node of a Pod; empty if it has none.
func (n *nominations) of(group string, uid types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byGroup[group][uid]
}

// takeEnded removes and returns the nominations of the groups that no nodes are kept for any more.
func (n *nominations) takeEnded(kept func(group string) bool) map[types.UID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := map[types.UID]string{}
	for group, nodes := range n.byGroup {
		if !kept(group) {
			maps.Copy(ended, nodes)
			delete(n.byGroup, group)
		}
	}
	return ended
}

// Nominated returns the node that a Pod is nominated for because others leave it; empty if there is none.
func (e *Evictor) Nominated(pod *corev1.Pod) string {
	member := e.sources.Registry.Member(pod.UID)
	if member == nil {
		return ""
	}
	return e.nominations.of(member.Group().Key, pod.UID)
}

// Nominate nominates members of a group for nodes that victims leave. It writes that into all but the leader, for which
// kube-scheduler does.
func (e *Evictor) Nominate(ctx context.Context, group string, nodes map[types.UID]string, leader types.UID) {
	e.nominations.set(group, nodes)
	go func() {
		for uid, node := range nodes {
			if member := e.sources.Registry.Member(uid); member != nil && uid != leader {
				e.writeNomination(ctx, member.Pod(), node)
			}
		}
	}()
}

// EndNominations clears the nominations of groups that no nodes are kept for any more. Those of Pods that are bound are
// cleared by the API server.
func (e *Evictor) EndNominations(ctx context.Context, kept func(group string) bool) {
	ended := e.nominations.takeEnded(kept)
	if len(ended) == 0 {
		return
	}
	go func() {
		for uid, node := range ended {
			member := e.sources.Registry.Member(uid)
			if member == nil || member.Pod().Spec.NodeName != "" || member.Pod().Status.NominatedNodeName != node {
				continue
			}
			if seat, hasSeat := e.sources.Registry.SeatOf(uid); !hasSeat || seat.Node != node {
				e.writeNomination(ctx, member.Pod(), "")
			}
		}
	}()
}

// EndStaleNominations clears the nominations for a node of groups that no nodes are kept for: those that were written
// before a restart, and those that could not be cleared in time. kube-scheduler keeps the places of nominated Pods from
// others of their priority, also from those that come before them. Then others are tried again.
func (e *Evictor) EndStaleNominations(ctx context.Context, node string, kept func(group string) bool) {
	stale := slices.DeleteFunc(e.sources.Registry.NominatedFor(node), func(m *gangs.Member) bool { return kept(m.Group().Key) })
	if len(stale) == 0 {
		return
	}
	go func() {
		for _, m := range stale {
			e.writeNomination(ctx, m.Pod(), "")
		}
		e.sources.Wake()
	}()
}

// writeNomination writes a node's name into this version of a Pod; an empty one removes it.
// If the Pod has changed meanwhile, nothing is written: it only informs others.
func (e *Evictor) writeNomination(ctx context.Context, pod *corev1.Pod, node string) {
	if pod.Status.NominatedNodeName == node {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	patch, err := podwrite.Patch{
		Metadata: podwrite.Metadata{UID: pod.UID, ResourceVersion: pod.ResourceVersion}, Status: &podwrite.Status{NominatedNodeName: &node},
	}.Bytes()
	if err == nil {
		_, err = e.sources.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !podwrite.IsGone(err) {
		e.sources.Logger.V(2).Info("A Pod's nominated node is not written", "pod", klog.KObj(pod), "node", node, "err", err)
	}
}
