// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Why a Pod may not use its queue.
const (
	// QueueNotFound: the queue that is named does not exist.
	QueueNotFound Reason = "QueueNotFound"
	// NamespaceNotAccepted: the queue does not accept the Pod's namespace.
	NamespaceNotAccepted Reason = "NamespaceNotAccepted"
	// PriorityNotAccepted: the queue does not accept the Pod's PriorityClass.
	PriorityNotAccepted Reason = "PriorityNotAccepted"
	// RuntimeTooLong: the Pod declares that it may run for longer than the queue allows.
	RuntimeTooLong Reason = "RuntimeTooLong"
)

// Applicant is a Pod that wants GPUs, with what decides about its queue.
type Applicant struct {
	Namespace string
	// Queue is the Pod's label falldio.com/queue, and NamespaceQueue that of its namespace.
	Queue, NamespaceQueue string
	// NamespaceLabels are all labels of the namespace.
	NamespaceLabels map[string]string
	PriorityClass   string
	// MaxRuntime is what the Pod declares; 0 if it declares nothing.
	MaxRuntime time.Duration
}

// Assignment is the queue of a Pod.
type Assignment struct {
	// Queue is the Pod's queue, NoQueue for none. It may not exist: then there is a problem.
	Queue string
	// Problem is why the Pod may not use it; nil if it may.
	Problem *Problem
}

// Assign returns the queue of a Pod: the one that it names, else the one that its namespace names,
// else the only one that accepts the namespace, else none. A Pod that may not use its queue is to
// wait. It is not put into another one instead. In a cluster without queues, which a nil Tree is too, a
// queue that a Pod names is missing, and the default of a namespace means nothing.
func (t *Tree) Assign(pod *Applicant) Assignment {
	switch {
	case !t.HasQueues() && pod.Queue == "":
		return Assignment{}
	case !t.HasQueues():
		return Assignment{pod.Queue, missing(pod.Queue, "")}
	case pod.Queue != "":
		return Assignment{pod.Queue, t.refusal(pod, pod.Queue, "")}
	case pod.NamespaceQueue != "":
		return Assignment{pod.NamespaceQueue, t.refusal(pod, pod.NamespaceQueue,
			fmt.Sprintf(" (it is the default of the namespace, from its label falldio.com/queue=%s)", pod.NamespaceQueue))}
	}
	if queue := t.only(pod.NamespaceLabels); queue != NoQueue {
		return Assignment{queue, t.refusal(pod, queue, " (it is the only queue that accepts the namespace)")}
	}
	return Assignment{}
}

// Holder returns the queue that holds what a Pod holds: the first one of those that Assign looks for that accepts the
// Pod's namespace; NoQueue if there is none. Whoever placed the Pod, a queue never pays for a namespace that it does
// not accept. Its priorities and its longest run time do not matter: they decide who may start, and a Pod that holds
// GPUs without having been asked counts all the same.
func (t *Tree) Holder(pod *Applicant) string {
	for _, queue := range []string{pod.Queue, pod.NamespaceQueue} {
		if n := t.nodes[queue]; queue != NoQueue && n != nil && n.accepts(pod.NamespaceLabels) {
			return queue
		}
	}
	return t.only(pod.NamespaceLabels)
}

// only returns the only queue that accepts a namespace; NoQueue if there are none or several.
func (t *Tree) only(namespaceLabels map[string]string) string {
	accepting := t.Accepting(namespaceLabels)
	if len(accepting) != 1 {
		return NoQueue
	}
	return accepting[0]
}

// Accepting returns the queues that accept a namespace with the given labels. The result must
// not be changed.
func (t *Tree) Accepting(namespaceLabels map[string]string) []string {
	key := keyOf(namespaceLabels)
	if names, known := t.accepting.get(key); known {
		return names
	}
	var names []string
	for _, n := range t.sorted {
		if n.accepts(namespaceLabels) {
			names = append(names, n.queue.Name)
		}
	}
	t.accepting.put(key, names)
	return names
}

// maxRemembered is of how many sets of labels a tree remembers which queues accept them: more than
// clusters have namespaces.
const maxRemembered = 1 << 14

// acceptances remembers which queues accept which labels. Each Pod that names no queue asks, and
// there may be thousands of Pods and queues, but there are few namespaces.
type acceptances struct {
	mu       sync.Mutex
	byLabels map[string][]string
}

func (a *acceptances) get(key string) (queues []string, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	queues, known = a.byLabels[key]
	return queues, known
}

func (a *acceptances) put(key string, queues []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byLabels == nil || len(a.byLabels) >= maxRemembered {
		a.byLabels = map[string][]string{}
	}
	a.byLabels[key] = queues
}

// keyOf returns a text that equal labels have in common, and no others. Labels contain no zeros.
func keyOf(labels map[string]string) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name)
		key.WriteByte(0)
		key.WriteString(labels[name])
		key.WriteByte(0)
	}
	return key.String()
}

func (n *node) accepts(namespaceLabels map[string]string) bool {
	return n.queue.Accepts != nil && n.queue.Accepts(namespaceLabels)
}

// refusal returns why a Pod may not use a queue; nil if it may. The origin says why it is in that
// queue, if the Pod does not name it.
func (t *Tree) refusal(pod *Applicant, queue, origin string) *Problem {
	n := t.nodes[queue]
	if n == nil {
		return missing(queue, origin)
	}
	if !n.accepts(pod.NamespaceLabels) {
		return &Problem{NamespaceNotAccepted, n.namespaceRefusal(pod.Namespace, origin)}
	}
	if accepted := t.Priorities(queue); len(accepted) > 0 && !slices.Contains(accepted, pod.PriorityClass) {
		return &Problem{PriorityNotAccepted, priorityRefusal(queue, origin, pod.PriorityClass, accepted)}
	}
	if most := t.MaxRuntime(queue); most > 0 && pod.MaxRuntime > most {
		return &Problem{RuntimeTooLong, fmt.Sprintf("tasks in queue %s%s may run for at most %v, but maxRuntimeSeconds allows %v: lower it, or name another queue",
			queue, origin, most, pod.MaxRuntime)}
	}
	return nil
}

func missing(queue, origin string) *Problem {
	return &Problem{QueueNotFound, fmt.Sprintf("there is no GPUQueue %q%s: create it, or name another one", queue, origin)}
}

func (n *node) namespaceRefusal(namespace, origin string) string {
	if n.queue.Accepts == nil {
		return fmt.Sprintf("queue %s%s accepts no namespace, because it has no namespaceSelector: name another queue", n.queue.Name, origin)
	}
	return fmt.Sprintf("queue %s%s does not accept namespace %s: its namespaceSelector is %s", n.queue.Name, origin, namespace, n.queue.Selector)
}

func priorityRefusal(queue, origin, class string, accepted []string) string {
	quoted := make([]string, 0, len(accepted))
	for _, name := range accepted {
		if name == "" {
			name = "none"
		}
		quoted = append(quoted, name)
	}
	which := "PriorityClass " + class
	if class == "" {
		which = "Pods without a PriorityClass"
	}
	return fmt.Sprintf("queue %s%s does not accept %s: it accepts %s", queue, origin, which, strings.Join(quoted, ", "))
}
