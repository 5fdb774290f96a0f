// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/enforcement"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// ReasonShareNotEnforced is the reason of the Event on a Pod with a share of a GPU that nothing
// limits.
const ReasonShareNotEnforced = "GPUShareNotEnforced"

// ShareEvents writes an Event on each Pod that uses a share of a GPU without limits.
type ShareEvents struct {
	recorder record.EventRecorder
	// began is when this process did. Pods that were there before have got their Event from
	// the process before.
	began time.Time
	// limited is true if the node is meant to have limits.
	limited bool

	mu sync.Mutex
	// written are the Pods that have their Event.
	written map[types.UID]bool
}

// NewShareEvents returns a ShareEvents for Pods that start from now on; limited is true if
// shares on this node are meant to have limits.
func NewShareEvents(recorder record.EventRecorder, now time.Time, limited bool) *ShareEvents {
	// The API has no fractions of seconds.
	return &ShareEvents{recorder: recorder, began: now.Truncate(time.Second), limited: limited, written: map[types.UID]bool{}}
}

// Write writes the Events that are due, one for each Pod. pods are those of the node.
func (e *ShareEvents) Write(pods []*corev1.Pod, statements []enforcement.Statement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	byName := make(map[types.NamespacedName]*corev1.Pod, len(pods))
	written := map[types.UID]bool{}
	for _, pod := range pods {
		byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
		if e.written[pod.UID] {
			written[pod.UID] = true
		}
	}
	e.written = written // without Pods that are gone
	for i := range statements {
		s := &statements[i]
		if pod := byName[s.Pod]; s.Given == inventory.EnforcementNone && pod != nil && e.isDue(pod) {
			e.recorder.Event(podReference(pod), corev1.EventTypeWarning, ReasonShareNotEnforced, e.message(s))
			e.written[pod.UID] = true
		}
	}
}

// isDue reports whether a Pod has started in the time of this process, and has no Event yet.
func (e *ShareEvents) isDue(pod *corev1.Pod) bool {
	started := pod.Status.StartTime
	return started != nil && !started.Time.Before(e.began) && !e.written[pod.UID]
}

// message returns what is the matter and what can be done about it.
func (e *ShareEvents) message(s *enforcement.Statement) string {
	remedy := "ask the administrator for a node with NVIDIA's MPS (nodeagent --mps), or request a whole GPU"
	if e.limited {
		remedy = "the node's MPS daemon did not run when the Pod started; a new Pod gets limits once it runs"
	}
	return fmt.Sprintf("Container %s has %d %% of GPU %s, but nothing limits it to that: %s", s.Container, s.Percent, s.GPU, remedy)
}

func podReference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
