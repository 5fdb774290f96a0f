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

// queues compares what queues say that they hold with the most that the Pods of their namespaces have held lately: a
// status is not written after every change.
type queues struct {
	known map[string]*v1.GPUQueue
	// held is how much was held by the Pods of a queue's namespace, since which calm time, in the order of time.
	held map[string][]holding
}

type holding struct {
	from time.Duration
	gpus float64
}

func newQueues() *queues {
	return &queues{known: map[string]*v1.GPUQueue{}, held: map[string][]holding{}}
}

func (q *queues) take(w *world, s *step) {
	if s.queue != nil {
		keep(q.known, s.queue.Name, s.queue, s.gone)
		if s.gone {
			delete(q.held, s.queue.Name)
		}
	}
	if s.queue == nil && s.pod == nil {
		return
	}
	for name, queue := range q.known {
		said, most := saysItHolds(queue), q.mostOf(w, queue)
		if said > most {
			w.report(InvariantQueues, name, "its status says that it holds %.2f GPUs, and the Pods of its namespace held at most %.2f in the last %v of calm", said, most, w.config.Account)
		}
	}
}

// mostOf returns the most GPUs that the Pods of a queue's namespace have held lately.
func (q *queues) mostOf(w *world, queue *v1.GPUQueue) float64 {
	samples := q.held[queue.Name]
	now := holding{w.calm, w.heldFor(queue)}
	if len(samples) == 0 || samples[len(samples)-1].gpus != now.gpus {
		samples = append(samples, now)
	}
	// The first one that counts is that which held when the time began.
	for len(samples) > 1 && samples[1].from <= w.calm-w.config.Account {
		samples = samples[1:]
	}
	q.held[queue.Name] = samples
	most := 0.0
	for i := range samples {
		most = max(most, samples[i].gpus)
	}
	return most
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
