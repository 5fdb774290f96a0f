// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// evictAll evicts Pods until a PodDisruptionBudget forbids it, and returns how
// many were evicted.
func (r *Rescheduler) evictAll(ctx context.Context, pods []*corev1.Pod) (evicted int, err error) {
	results := r.deps.Evictions
	for _, pod := range pods {
		switch err := r.evict(ctx, pod); {
		case apierrors.IsTooManyRequests(err):
			klog.FromContext(ctx).Info("Not moved: a PodDisruptionBudget forbids it", "pod", klog.KObj(pod))
			results.WithLabelValues("refused").Inc()
			return evicted, nil
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			continue // gone or changed
		case err != nil:
			results.WithLabelValues("error").Inc()
			return evicted, fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
		}
		results.WithLabelValues("success").Inc()
		evicted++
	}
	return evicted, nil
}

func (r *Rescheduler) evict(ctx context.Context, pod *corev1.Pod) error {
	return r.deps.Kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: podwrite.SameVersion(pod)},
	})
}

// tryEvict evicts a Pod and records the result.
func (r *Rescheduler) tryEvict(ctx context.Context, pod *corev1.Pod) error {
	try := moveplan.Try{At: r.deps.Clock.Now()}
	results := r.deps.Evictions
	err := r.evict(ctx, pod)
	switch {
	case err == nil:
		results.WithLabelValues("success").Inc()
		klog.FromContext(ctx).Info("Evicted Pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		try.Granted = true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // gone or changed: the cache will show it soon
	case apierrors.IsTooManyRequests(err):
		results.WithLabelValues("refused").Inc()
		try.Refusal = err.Error()
		err = nil
	default:
		results.WithLabelValues("error").Inc()
		try.Refusal = err.Error()
		err = fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
	}
	r.tries[pod.UID] = try
	return err
}

// askForCheckpoint asks a Pod to save its work before it is evicted.
func (r *Rescheduler) askForCheckpoint(ctx context.Context, pod *corev1.Pod) error {
	patch, err := checkpoint.Request(pod.UID, r.deps.Clock.Now()).Bytes()
	if err != nil {
		return err
	}
	_, err = r.deps.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !podwrite.IsGone(err) {
		return fmt.Errorf("asking Pod %s for a checkpoint: %w", klog.KObj(pod), err)
	}
	return nil
}
