// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Queue translates a GPUQueue. A selector that can't be read accepts no namespace, and is returned
// as an error beside the rest.
func Queue(object *v1.GPUQueue) (queueing.Queue, error) {
	spec := &object.Spec
	queue := queueing.Queue{
		Name: object.Name, Parent: spec.Parent, Quotas: quotas(spec.Resources), Priorities: spec.Priorities,
		MaxRuntime: seconds(spec.MaxRuntimeSeconds), DefaultRuntime: seconds(spec.DefaultRuntimeSeconds), Reclaim: reclaim(spec.Reclaim),
	}
	if spec.Weight != nil {
		queue.Weight = int(*spec.Weight)
	}
	if spec.NamespaceSelector == nil {
		return queue, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
	if err != nil {
		return queue, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	queue.Accepts = func(namespaceLabels map[string]string) bool { return selector.Matches(labels.Set(namespaceLabels)) }
	queue.Selector = selector.String()
	return queue, nil
}

// Queues translates GPUQueues. Errors are dropped: their conditions show them.
func Queues(objects []*v1.GPUQueue) []queueing.Queue {
	queues := make([]queueing.Queue, 0, len(objects))
	for _, object := range objects {
		queue, _ := Queue(object)
		queues = append(queues, queue)
	}
	return queues
}

// Factors returns the fair-share factors that the queues' statuses show.
func Factors(objects []*v1.GPUQueue) map[string]float64 {
	factors := map[string]float64{}
	for _, object := range objects {
		if usage := object.Status.Usage; usage != nil && usage.Factor != "" {
			if factor, err := strconv.ParseFloat(usage.Factor, 64); err == nil {
				factors[object.Name] = factor
			}
		}
	}
	return factors
}

func quotas(resources []v1.GPUQueueResource) map[string]queueing.Quota {
	quotas := make(map[string]queueing.Quota, len(resources))
	for i := range resources {
		one := &resources[i]
		quota := queueing.Quota{Guaranteed: queueing.Amount(one.Guaranteed) * queueing.GPU, Limit: queueing.Unlimited}
		if one.Limit != nil {
			quota.Limit = queueing.Amount(*one.Limit) * queueing.GPU
		}
		quotas[one.GPU] = quota
	}
	return quotas
}

func reclaim(spec *v1.GPUQueueReclaim) *queueing.Reclaim {
	if spec == nil {
		return nil
	}
	result := &queueing.Reclaim{Policy: queueing.ReclaimPolicy(spec.Policy), Notice: queueing.DefaultNotice}
	if result.Policy == "" {
		result.Policy = queueing.ReclaimAny
	}
	if spec.MinRuntimeSeconds != nil {
		result.MinRuntime = time.Duration(*spec.MinRuntimeSeconds) * time.Second
	}
	if spec.NoticeSeconds != nil {
		result.Notice = time.Duration(*spec.NoticeSeconds) * time.Second
	}
	return result
}

func seconds(count *int64) time.Duration {
	if count == nil {
		return 0
	}
	return time.Duration(*count) * time.Second
}
