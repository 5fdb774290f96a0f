// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// unusable remembers what an Event has said about nodes whose GPUs can't be used, by the nodes' names.
type unusable struct {
	mu       sync.Mutex
	reported map[string]string
}

// set records what is wrong with a node, nothing if it is empty, and returns whether that is news.
func (u *unusable) set(node, problem string) (news bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	news = problem != "" && u.reported[node] != problem
	switch {
	case problem == "":
		delete(u.reported, node)
	case u.reported == nil:
		u.reported = map[string]string{node: problem}
	default:
		u.reported[node] = problem
	}
	return news
}

// NodeChanged tells who looks after a node which of its GPUs can't be used. Who begins to lead tells it with the next
// update of the node: the kubelet makes one every few minutes.
func (m *Monitor) NodeChanged(node *corev1.Node) {
	reason, problem := snapshot.Unusable(node)
	if problem != "" && !m.sources.MayAct() {
		return
	}
	if m.unusable.set(node.Name, problem) {
		m.sources.Events.Eventf(node, nil, corev1.EventTypeWarning, reason, "Scheduling", "%s", problem)
	}
}

// NodeGone forgets the problem of a node that is gone.
func (m *Monitor) NodeGone(name string) { m.unusable.set(name, "") }
