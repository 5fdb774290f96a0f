// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Nominator has the nodes that preempting gangs will get places on: what the Pods have in status.nominatedNodeName, so that others see
// what the victims leave for. It is safe for concurrent use.
type Nominator struct {
	client   kubernetes.Interface
	logger   klog.Logger
	registry *gangs.Registry

	mu sync.Mutex
	// byGroup has the node of each Pod.
	byGroup map[string]map[types.UID]string
}

// NewNominator returns a Nominator without nominations.
func NewNominator(client kubernetes.Interface, logger klog.Logger, registry *gangs.Registry) *Nominator {
	return &Nominator{client: client, logger: logger, registry: registry, byGroup: map[string]map[types.UID]string{}}
}

func (n *Nominator) set(group string, nodes map[types.UID]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byGroup[group] = nodes
}

// Nominated returns the node that a Pod is nominated for because others leave it; empty if there is none.
func (n *Nominator) Nominated(pod *corev1.Pod) string {
	member := n.registry.Member(pod.UID)
	if member == nil {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byGroup[member.Group().Key][pod.UID]
}

// takeEnded removes and returns the nominations of the groups that no longer claim nodes.
func (n *Nominator) takeEnded(claims func(group string) bool) map[types.UID]string {
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

// Nominate nominates members of a group for nodes that victims leave. It writes that into all but the leader, for which kube-scheduler
// does.
func (n *Nominator) Nominate(ctx context.Context, group string, nodes map[types.UID]string, leader types.UID) {
	n.set(group, nodes)
	go func() {
		for uid, node := range nodes {
			if member := n.registry.Member(uid); member != nil && uid != leader {
				n.write(ctx, member.Pod(), node)
			}
		}
	}()
}

// End clears the nominations of groups that no longer claim nodes. Those of Pods that are bound are cleared by the API server.
func (n *Nominator) End(ctx context.Context, claims func(group string) bool) {
	ended := n.takeEnded(claims)
	if len(ended) == 0 {
		return
	}
	go func() {
		for uid, node := range ended {
			member := n.registry.Member(uid)
			if member == nil || member.Pod().Spec.NodeName != "" || member.Pod().Status.NominatedNodeName != node {
				continue
			}
			if seat, hasSeat := n.registry.SeatOf(uid); !hasSeat || seat.Node != node {
				n.write(ctx, member.Pod(), "")
			}
		}
	}()
}

// write writes a node's name into this version of a Pod; an empty one removes it.
// If the Pod has changed meanwhile, nothing is written: it only informs others.
func (n *Nominator) write(ctx context.Context, pod *corev1.Pod, node string) {
	if pod.Status.NominatedNodeName == node {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	patch, err := podwrite.Patch{
		Metadata: podwrite.Metadata{UID: pod.UID, ResourceVersion: pod.ResourceVersion}, Status: &podwrite.Status{NominatedNodeName: &node},
	}.Bytes()
	if err == nil {
		_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !podwrite.IsGone(err) {
		n.logger.V(2).Info("A Pod's nominated node is not written", "pod", klog.KObj(pod), "node", node, "err", err)
	}
}
