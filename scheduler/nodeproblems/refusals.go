// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// refusalWindow is for how long a refusal counts.
	refusalWindow = 5 * time.Minute
	// enoughPods and enoughTasks are how many Pods, of how many tasks, a node has to refuse within refusalWindow.
	enoughPods, enoughTasks = 3, 2
	// A node that refuses Pods is the last choice for shortestAvoidance, twice as long each further
	// time, and for longestAvoidance at most.
	shortestAvoidance, longestAvoidance = 2 * time.Minute, 30 * time.Minute
	// maxRefusals is how many refusals of a node are kept.
	maxRefusals = 64
)

// refusal is that of a Pod.
type refusal struct {
	// Task is the Pod's controller, or the Pod itself if it has none.
	Task      types.UID
	Namespace string
	At        time.Time
}

// verdict is what follows from the refusals of a node.
type verdict struct {
	// Pods and Tasks are how many were refused within refusalWindow.
	Pods, Tasks int
	// Namespace is that for whose Pods the node is the last choice until Until; "" for all Pods.
	Namespace string
	Until     time.Time
}

// refusals are those that nodes have answered Pods with that were bound to them: one whose device plugin or kubelet is
// broken looks empty, and so attracts one task after the other. It is safe for concurrent use; its zero value is empty.
//
// One task that is refused says little about the node. When several are, the node is the last choice for the Pods of
// their namespace, and for all Pods if they are of several namespaces: otherwise, who has a namespace could make a node
// look bad to others, with Pods that no node would take.
type refusals struct {
	mu      sync.Mutex
	byScope map[scope]*refusalsOf
}

// scope is a node as the Pods of a namespace see it; without a namespace, as all Pods do.
type scope struct{ node, namespace string }

// refusalsOf are the refusals of a scope, and what followed from them.
type refusalsOf struct {
	refusals []refusal
	// times is how often the node became the last choice, and until is when that ends.
	times int
	until time.Time
}

// record records that a node has refused a Pod. It returns what follows, nil if nothing does.
func (m *refusals) record(node string, one refusal) *verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.add(scope{node, one.Namespace}, one)
	if all := m.add(scope{node, ""}, one); all != nil {
		return all
	}
	return own
}

func (m *refusals) add(about scope, one refusal) *verdict {
	if m.byScope == nil {
		m.byScope = map[scope]*refusalsOf{}
	}
	r := m.byScope[about]
	if r == nil {
		r = &refusalsOf{}
		m.byScope[about] = r
	}
	r.refusals = slices.DeleteFunc(r.refusals, func(old refusal) bool { return one.At.Sub(old.At) > refusalWindow })
	if len(r.refusals) == maxRefusals {
		r.refusals = slices.Delete(r.refusals, 0, 1)
	}
	r.refusals = append(r.refusals, one)
	tasks, namespaces := map[types.UID]bool{}, map[string]bool{}
	for _, earlier := range r.refusals {
		tasks[earlier.Task], namespaces[earlier.Namespace] = true, true
	}
	if len(r.refusals) < enoughPods || len(tasks) < enoughTasks || about.namespace == "" && len(namespaces) == 1 || one.At.Before(r.until) {
		return nil
	}
	found := &verdict{Pods: len(r.refusals), Tasks: len(tasks), Namespace: about.namespace}
	const doublings = 10 // enough for the longest one
	r.until = one.At.Add(min(shortestAvoidance<<min(r.times, doublings), longestAvoidance))
	r.times++
	r.refusals = nil
	found.Until = r.until
	return found
}

// started forgets what all Pods and those of a namespace have met on a node: one of these has started there.
func (m *refusals) started(node, namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byScope, scope{node, namespace})
	delete(m.byScope, scope{node, ""})
}

// nodes returns the nodes that are the last choice for the Pods of a namespace now, in order. What
// is long over is forgotten.
func (m *refusals) nodes(namespace string, now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for about, r := range m.byScope {
		switch {
		case now.Before(r.until):
			if about.namespace == "" || about.namespace == namespace {
				names[about.node] = true
			}
		case now.Sub(r.until) > longestAvoidance && (len(r.refusals) == 0 || now.Sub(r.refusals[len(r.refusals)-1].At) > refusalWindow):
			delete(m.byScope, about)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}
