// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Queues are the GPUQueues of a cluster. A nil pointer stands for a cluster without any.
type Queues struct {
	Objects []*v1.GPUQueue
	// Tree is nil if it is not known which queues there are.
	Tree *queueing.Tree
	// Factors are the fair-share factors that the queues' statuses show, as far as they do.
	Factors    map[string]float64
	byName     map[string]*v1.GPUQueue
	namespaces map[string]*corev1.Namespace
}

// NewQueues returns the GPUQueues of a cluster; nil if there are none. Which queue a Pod is in that names none depends
// on the namespaces.
func NewQueues(objects []*v1.GPUQueue, namespaces []*corev1.Namespace) *Queues {
	if len(objects) == 0 {
		return nil
	}
	q := &Queues{
		Objects: slices.Clone(objects), Tree: gpuqueue.NewTree(objects), Factors: gpuqueue.Factors(objects),
		byName: make(map[string]*v1.GPUQueue, len(objects)), namespaces: make(map[string]*corev1.Namespace, len(namespaces)),
	}
	for _, queue := range objects {
		q.byName[queue.Name] = queue
	}
	for _, namespace := range namespaces {
		q.namespaces[namespace.Name] = namespace
	}
	return q
}

// UnknownQueues returns the GPUQueues of a cluster of which it is not known which there are.
func UnknownQueues() *Queues { return &Queues{} }

// known reports whether there are queues, and it is known which.
func (q *Queues) known() bool { return q != nil && q.Tree != nil }

// Assign returns the queue of a Pod, and why the Pod may not use it. If the queues or the Pod's namespace are not
// known, it is the queue that the Pod names.
func (q *Queues) Assign(pod *corev1.Pod) queueing.Assignment {
	switch applicant, known := q.applicant(pod); {
	case q == nil:
		applicant = gpuqueue.Applicant(pod, nil)
		return (*queueing.Tree)(nil).Assign(&applicant)
	case !known:
		return queueing.Assignment{Queue: pod.Labels[v1.LabelQueue]}
	default:
		return q.Tree.Assign(&applicant)
	}
}

// applicant returns what decides about the queue of a Pod, and whether it is known.
func (q *Queues) applicant(pod *corev1.Pod) (applicant queueing.Applicant, known bool) {
	if !q.known() || q.namespaces[pod.Namespace] == nil {
		return applicant, false
	}
	return gpuqueue.Applicant(pod, q.namespaces[pod.Namespace]), true
}

// Holder returns the queue that a running Pod counts for. If the queues or the Pod's namespace are not known, it is the
// queue that the Pod names.
func (q *Queues) Holder(pod *corev1.Pod) string {
	applicant, known := q.applicant(pod)
	switch {
	case known:
		return q.Tree.Holder(&applicant)
	case q == nil:
		return queueing.NoQueue
	default:
		return q.Assign(pod).Queue
	}
}

// Object returns a queue by its name; nil if there is none.
func (q *Queues) Object(name string) *v1.GPUQueue {
	if q == nil {
		return nil
	}
	return q.byName[name]
}

// factor returns a queue's fair-share factor; 1 for one without.
func (q *Queues) factor(queue string) float64 {
	if factor, known := q.Factors[queue]; known {
		return factor
	}
	return 1
}

// Refresh replaces what the queues' statuses say about what they hold and wait for by what the Pods show, if all Pods
// of the cluster are known: a status may be a minute old. The nodes have the models of the GPUs. What was used remains
// as it is: gpu-scheduler decides by that of the statuses, too.
func (q *Queues) Refresh(pods []*corev1.Pod, nodes []*corev1.Node) {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	view := gpuqueue.NewView(q.Tree)
	of := &gpuqueue.Cluster{
		Tree: q.Tree, Namespace: func(name string) *corev1.Namespace { return q.namespaces[name] }, Node: func(name string) *corev1.Node { return byName[name] },
	}
	for _, pod := range pods {
		view.Add(of, pod)
	}
	report := gpuqueue.NewReport(view, nil, 0, time.Time{})
	for i, queue := range q.Objects {
		fresh, now := queue.DeepCopy(), report.Status(queue)
		fresh.Status.Resources, fresh.Status.Summary, fresh.Status.Running, fresh.Status.Waiting = now.Resources, now.Summary, now.Running, now.Waiting
		q.Objects[i], q.byName[queue.Name] = fresh, fresh
	}
}

// ledger returns what the queues hold, as their statuses show it: for users who may not see all Pods.
func (q *Queues) ledger() *queueing.Ledger {
	ledger := queueing.NewLedger(q.Tree)
	for _, queue := range q.Objects {
		enter(ledger, queue, queue.Name, 1)
		if path := q.Tree.Path(queue.Name); len(path) > 1 {
			enter(ledger, queue, path[1], -1) // the status of a parent counts its children
		}
	}
	return ledger
}

// enter adds what the status of a queue says to what some queue holds itself, or subtracts it.
func enter(ledger *queueing.Ledger, queue *v1.GPUQueue, holder string, sign queueing.Amount) {
	rest := queueing.Amount(0) // of models that are not known
	for i := range queue.Status.Resources {
		resource := &queue.Status.Resources[i]
		used := amountOf(resource.Used)
		if resource.GPU == v1.AnyGPU {
			rest += used
			continue
		}
		rest -= used
		ledger.Add(holder, resource.GPU, sign*used)
	}
	ledger.Add(holder, "", sign*max(0, rest))
}

// amountOf reads a number of GPUs as statuses have it, "8" or "0.5"; 0 for anything else.
func amountOf(text string) queueing.Amount {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || number < 0 || number > math.MaxInt32 {
		return 0
	}
	return queueing.Amount(math.Round(number * float64(queueing.GPU)))
}
