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
	for _, pod := range pods {
		granted, refusal, err := r.evict(ctx, pod)
		switch {
		case err != nil:
			return evicted, err
		case refusal != "":
			klog.FromContext(ctx).Info("Not moved: a PodDisruptionBudget forbids it", "pod", klog.KObj(pod))
			return evicted, nil
		case granted:
			evicted++
		}
	}
	return evicted, nil
}

// evict evicts a Pod. Without an error, it is evicted, or the refusal says why not, or it is gone or has changed: the
// cache will show that soon.
func (r *Rescheduler) evict(ctx context.Context, pod *corev1.Pod) (granted bool, refusal string, err error) {
	err = r.deps.Kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: podwrite.SameVersion(pod)},
	})
	results := r.deps.Evictions
	switch {
	case err == nil:
		results.WithLabelValues("success").Inc()
		return true, "", nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, "", nil
	case apierrors.IsTooManyRequests(err):
		results.WithLabelValues("refused").Inc()
		return false, err.Error(), nil
	default:
		results.WithLabelValues("error").Inc()
		return false, err.Error(), fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
	}
}

// tryEvict evicts a Pod of a plan and records the result.
func (r *Rescheduler) tryEvict(ctx context.Context, pod *corev1.Pod) error {
	try := moveplan.Try{At: r.deps.Clock.Now()}
	var err error
	if try.Granted, try.Refusal, err = r.evict(ctx, pod); try.Granted {
		klog.FromContext(ctx).Info("Evicted Pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	}
	if try.Granted || try.Refusal != "" {
		r.tries[pod.UID] = try
	}
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
