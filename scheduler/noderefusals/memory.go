// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package noderefusals remembers which nodes refuse the Pods that are bound to them: one whose device
// plugin or kubelet is broken looks empty, and so attracts one task after the other.
//
// One task that is refused says little about the node. When several are, the node is the last choice
// for the Pods of their namespace, and for all Pods if they are of several namespaces: otherwise, who
// has a namespace could make a node look bad to others, with Pods that no node would take.
package noderefusals

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Window is for how long a refusal counts.
	Window = 5 * time.Minute
	// enoughPods and enoughTasks are how many Pods, of how many tasks, a node has to refuse within the window.
	enoughPods, enoughTasks = 3, 2
	// A node that refuses Pods is the last choice for shortest, and twice as long each further time, up to longest.
	shortest, longest = 2 * time.Minute, 30 * time.Minute
	// maxRefusals is how many refusals of a node are kept.
	maxRefusals = 64
)

// Refusal is that of a Pod.
type Refusal struct {
	// Task is the Pod's controller, or the Pod itself if it has none.
	Task      types.UID
	Namespace string
	At        time.Time
}

// Verdict is what follows from the refusals of a node.
type Verdict struct {
	// Pods and Tasks are how many were refused within the window.
	Pods, Tasks int
	// Namespace is that for whose Pods the node is the last choice until Until; "" for all Pods.
	Namespace string
	Until     time.Time
}

// Memory remembers the refusals of nodes. It is safe for concurrent use; its zero value is empty.
type Memory struct {
	mu    sync.Mutex
	known map[scope]*record
}

// scope is a node as the Pods of a namespace see it; without a namespace, as all Pods do.
type scope struct{ node, namespace string }

// record is what is known of a scope.
type record struct {
	refusals []Refusal
	// times is how often the node became the last choice, and until is when that ends.
	times int
	until time.Time
}

// Add records that a node has refused a Pod. It returns what follows, nil if nothing does.
func (m *Memory) Add(node string, refusal Refusal) *Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.add(scope{node, refusal.Namespace}, refusal)
	if all := m.add(scope{node, ""}, refusal); all != nil {
		return all
	}
	return own
}

func (m *Memory) add(about scope, refusal Refusal) *Verdict {
	if m.known == nil {
		m.known = map[scope]*record{}
	}
	r := m.known[about]
	if r == nil {
		r = &record{}
		m.known[about] = r
	}
	r.refusals = slices.DeleteFunc(r.refusals, func(old Refusal) bool { return refusal.At.Sub(old.At) > Window })
	if len(r.refusals) == maxRefusals {
		r.refusals = slices.Delete(r.refusals, 0, 1)
	}
	r.refusals = append(r.refusals, refusal)
	tasks, namespaces := map[types.UID]bool{}, map[string]bool{}
	for _, one := range r.refusals {
		tasks[one.Task], namespaces[one.Namespace] = true, true
	}
	if len(r.refusals) < enoughPods || len(tasks) < enoughTasks || about.namespace == "" && len(namespaces) == 1 || refusal.At.Before(r.until) {
		return nil
	}
	verdict := &Verdict{Pods: len(r.refusals), Tasks: len(tasks), Namespace: about.namespace}
	const doublings = 10 // enough for the longest
	r.until = refusal.At.Add(min(shortest<<min(r.times, doublings), longest))
	r.times++
	r.refusals = nil
	verdict.Until = r.until
	return verdict
}

// Started forgets what all Pods and those of a namespace have met on a node: one of these has started there.
func (m *Memory) Started(node, namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, scope{node, namespace})
	delete(m.known, scope{node, ""})
}

// LastChoices returns the nodes that are the last choice for the Pods of a namespace now, in order. What
// is long over is forgotten.
func (m *Memory) LastChoices(namespace string, now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := map[string]bool{}
	for about, r := range m.known {
		switch {
		case now.Before(r.until):
			if about.namespace == "" || about.namespace == namespace {
				nodes[about.node] = true
			}
		case now.Sub(r.until) > longest && (len(r.refusals) == 0 || now.Sub(r.refusals[len(r.refusals)-1].At) > Window):
			delete(m.known, about)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(nodes))
}
