// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpuqueue translates between GPUQueues, Pods and pkg/queueing: which queue a Pod is in, what
// queues hold and have used, and what their status says. It is pure.
package gpuqueue

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// NewTree returns the tree of queues.
func NewTree(queues []*v1.GPUQueue) *queueing.Tree {
	plain := make([]queueing.Queue, 0, len(queues))
	for _, queue := range queues {
		plain = append(plain, Of(queue))
	}
	return queueing.NewTree(plain)
}

// Of returns a queue as pkg/queueing sees it. If its selector is not valid, it accepts no namespace.
func Of(queue *v1.GPUQueue) queueing.Queue {
	spec := &queue.Spec
	plain := queueing.Queue{
		Name: queue.Name, Parent: spec.Parent, Weight: int(ptr.Deref(spec.Weight, 1)),
		Quotas:         make(map[string]queueing.Quota, len(spec.Resources)),
		Priorities:     spec.Priorities,
		MaxRuntime:     time.Duration(ptr.Deref(spec.MaxRuntimeSeconds, 0)) * time.Second,
		DefaultRuntime: time.Duration(ptr.Deref(spec.DefaultRuntimeSeconds, 0)) * time.Second,
		Reclaim:        reclaimOf(spec.Reclaim),
	}
	for _, resource := range spec.Resources {
		quota := queueing.Quota{Guaranteed: queueing.Amount(resource.Guaranteed) * queueing.GPU, Limit: queueing.Unlimited}
		if resource.Limit != nil {
			quota.Limit = queueing.Amount(*resource.Limit) * queueing.GPU
		}
		plain.Quotas[resource.GPU] = quota
	}
	if spec.NamespaceSelector == nil {
		return plain
	}
	plain.Selector = metav1.FormatLabelSelector(spec.NamespaceSelector)
	selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	plain.Accepts = func(namespace map[string]string) bool { return selector.Matches(labels.Set(namespace)) }
	return plain
}

func reclaimOf(reclaim *v1.GPUQueueReclaim) *queueing.Reclaim {
	if reclaim == nil {
		return nil
	}
	return &queueing.Reclaim{
		Policy:     cmp.Or(queueing.ReclaimPolicy(reclaim.Policy), queueing.ReclaimAny),
		MinRuntime: time.Duration(ptr.Deref(reclaim.MinRuntimeSeconds, v1.DefaultReclaimMinRuntimeSeconds)) * time.Second,
		Notice:     time.Duration(ptr.Deref(reclaim.NoticeSeconds, v1.DefaultReclaimNoticeSeconds)) * time.Second,
	}
}

// Problem returns what is wrong with a queue; nil if nothing is.
func Problem(queue *v1.GPUQueue, tree *queueing.Tree) *queueing.Problem {
	if problem := tree.Problem(queue.Name); problem != nil {
		return problem
	}
	if _, err := metav1.LabelSelectorAsSelector(queue.Spec.NamespaceSelector); err != nil {
		return &queueing.Problem{Reason: v1.ReasonInvalidSelector,
			Message: fmt.Sprintf("spec.namespaceSelector is not valid, so no namespace may use the queue: %v", err)}
	}
	return nil
}
