// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// InvariantQueues says that a queue pays only for Pods of namespaces that it accepts, whatever other Pods say.
const InvariantQueues = "no queue pays for others"

// queues compares what queues say that they hold with what the Pods of their namespaces hold.
type queues struct {
	known map[string]*v1.GPUQueue
	// since is the calm time at which a queue began to say that it holds more.
	since map[string]time.Duration
	next  time.Duration
}

// queuesPeriod is how often queues are looked at, in calm time.
const queuesPeriod = time.Second

func newQueues() *queues {
	return &queues{known: map[string]*v1.GPUQueue{}, since: map[string]time.Duration{}}
}

func (q *queues) take(w *world, s *step) {
	if s.queue != nil {
		keep(q.known, s.queue.Name, s.queue, s.gone)
	}
	if w.calm < q.next {
		return
	}
	q.next = w.calm + queuesPeriod
	for name := range q.since {
		if q.known[name] == nil {
			delete(q.since, name)
		}
	}
	for name, queue := range q.known {
		q.look(w, name, queue)
	}
}

func (q *queues) look(w *world, name string, queue *v1.GPUQueue) {
	said, held := saysItHolds(queue), w.heldFor(queue)
	if said <= held {
		delete(q.since, name)
		return
	}
	since, known := q.since[name]
	if !known {
		q.since[name] = w.calm
		return
	}
	if lasted := w.calm - since; lasted > w.config.Account {
		w.report(InvariantQueues, name, "its status has said for %v of calm that it holds %.2f GPUs, and the Pods of its namespace hold %.2f", lasted.Round(time.Second), said, held)
	}
}

// saysItHolds returns how many GPUs a queue holds by its status.
func saysItHolds(queue *v1.GPUQueue) float64 {
	if queue.Status.Summary == nil {
		return 0
	}
	used, err := strconv.ParseFloat(queue.Status.Summary.Used, 64)
	if err != nil {
		return 0
	}
	return used
}

// heldFor returns how many GPUs the Pods of a queue's namespace hold: the queues of a campaign select one by its name.
func (w *world) heldFor(queue *v1.GPUQueue) float64 {
	if queue.Spec.NamespaceSelector == nil {
		return 0
	}
	namespace := queue.Spec.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
	held := queueing.Amount(0)
	for _, pod := range w.pods {
		if pod.Namespace == namespace && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			held += gpuqueue.Amount(pod)
		}
	}
	return float64(held) / float64(queueing.GPU)
}
