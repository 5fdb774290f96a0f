// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"falldio.github.io/gpu-controller/localcluster/stages"
)

const (
	// prodInterval and prodTime are how often and for how long Pods are prodded
	// after a restart of KWOK: until it certainly manages all nodes again.
	prodInterval = 2 * time.Second
	prodTime     = time.Minute
	// overdueAfter is much longer than the simulation takes to act.
	overdueAfter = 2 * time.Second
)

// prodPods updates Pods that a restarted KWOK has missed. KWOK drops the events of
// Pods whose node it does not manage yet, and a Pod that is bound at just that
// moment would never start.
func (c *cluster) prodPods(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.nodesLost:
		}
		// The only error is the timeout.
		_ = wait.PollUntilContextTimeout(ctx, prodInterval, prodTime, false, func(ctx context.Context) (bool, error) {
			if err := c.prodOverdue(ctx); err != nil {
				c.console.trouble("looking for Pods that kwok has overlooked: %v", err)
			}
			return len(c.nodesLost) > 0, nil
		})
	}
}

func (c *cluster) prodOverdue(ctx context.Context) error {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		return err
	}
	now := c.options.Clock.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, stages.AnnotationProddedAt, now.Format(time.RFC3339Nano))
	for i := range list.Items {
		pod := &list.Items[i]
		if !isOverdue(pod, now) {
			continue
		}
		if _, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// isOverdue reports whether something should have happened to a Pod by now: it
// should have started, ended, or gone.
func isOverdue(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp != nil {
		return true // simulated Pods go at once
	}
	switch pod.Status.Phase {
	case corev1.PodPending:
		return now.Sub(boundAt(pod)) > overdueAfter
	case corev1.PodRunning:
		end, err := time.Parse(time.RFC3339Nano, pod.Annotations[stages.AnnotationFinishAt])
		return err == nil && now.Sub(end) > overdueAfter
	default:
		return false
	}
}

func boundAt(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
