// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// nominations are the nodes that preempting gangs will get places on: what the Pods have in
// status.nominatedNodeName, so that others see what the victims leave for. Its zero value has
// none.
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

// takeEnded removes and returns the nominations of the groups that no longer claim nodes.
func (n *nominations) takeEnded(claims func(group string) bool) map[types.UID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := map[types.UID]string{}
	for group, nodes := range n.byGroup {
		if !claims(group) {
			maps.Copy(ended, nodes)
			delete(n.byGroup, group)
		}
	}
	return ended
}

// has reports whether a group claims nodes.
func (c *claims) has(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list[group] != nil
}

// Nominated returns the node that a Pod is nominated for because others leave it; empty if
// there is none.
func (p *Planner) Nominated(pod *corev1.Pod) string {
	member := p.registry.Member(pod.UID)
	if member == nil {
		return ""
	}
	return p.nominations.of(member.Group().Key, pod.UID)
}

// nominate nominates the members of a gang that will get places on the nodes of the victims.
// It writes that into all but the leader, for which kube-scheduler does.
func (p *Planner) nominate(ctx context.Context, s *search, found *preemptionPlan) {
	nodes := map[types.UID]string{}
	members, places := s.request.Assign(found.plan)
	for i, m := range members {
		if found.vacated[places[i].Node] {
			nodes[m.UID] = places[i].Node
		}
	}
	p.nominations.set(s.attempt.Group.Key, nodes)
	leader := s.attempt.Waiting[0].UID
	go func() {
		for _, m := range members {
			if node := nodes[m.UID]; node != "" && m.UID != leader {
				p.writeNomination(ctx, m.Pod(), node)
			}
		}
	}()
}

// endNominations clears the nominations of gangs that no longer claim nodes. Those of Pods
// that are bound are cleared by the API server.
func (p *Planner) endNominations(ctx context.Context) {
	ended := p.nominations.takeEnded(p.claims.has)
	if len(ended) == 0 {
		return
	}
	go func() {
		for uid, node := range ended {
			member := p.registry.Member(uid)
			if member == nil || member.Pod().Spec.NodeName != "" || member.Pod().Status.NominatedNodeName != node {
				continue
			}
			if seat, hasSeat := p.registry.SeatOf(uid); !hasSeat || seat.Node != node {
				p.writeNomination(ctx, member.Pod(), "")
			}
		}
	}()
}

// writeNomination writes a node's name into this version of a Pod; an empty one removes it.
// If the Pod has changed meanwhile, nothing is written: it only informs others.
func (p *Planner) writeNomination(ctx context.Context, pod *corev1.Pod, node string) {
	if pod.Status.NominatedNodeName == node {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	patch, err := podwrite.Patch{
		Metadata: podwrite.Metadata{UID: pod.UID, ResourceVersion: pod.ResourceVersion}, Status: &podwrite.Status{NominatedNodeName: &node},
	}.Bytes()
	if err == nil {
		_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !podwrite.IsGone(err) {
		p.logger.V(2).Info("A Pod's nominated node is not written", "pod", klog.KObj(pod), "node", node, "err", err)
	}
}

// onNominated returns the request restricted to the nodes that its members are nominated for;
// nil if not all that have to get places are. It is for use within mirror.For.
func (p *Planner) onNominated(attempt *gangs.Attempt, request *gangs.Request) *gangs.Request {
	nominated := map[string]bool{}
	for i, m := range attempt.Waiting {
		node := m.Pod().Status.NominatedNodeName
		switch {
		case node != "":
			nominated[node] = true
		case i < attempt.Need:
			return nil
		}
	}
	confined := request.Confined(func(gang *placement.Gang) {
		gang.Except = append(slices.Clone(gang.Except), p.mirror.OtherNodes(nominated)...)
	})
	confined.Only = slices.Sorted(maps.Keys(nominated))
	return confined
}

// preferNominated exchanges the places of members of the same role, so that as many as
// possible get one on the node that they are nominated for: kube-scheduler's filters expect
// them there.
func preferNominated(plan *placement.Plan, members []*gangs.Member, places []placement.Place) {
	wants := func(i int) string { return members[i].Pod().Status.NominatedNodeName }
	for i := range members {
		if wants(i) == places[i].Node {
			continue
		}
		for j := range members {
			if plan.Members[i].Role == plan.Members[j].Role && wants(j) == places[i].Node && wants(j) != places[j].Node {
				members[i], members[j] = members[j], members[i]
				break
			}
		}
	}
}
