// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// reasonForceDeleted is the reason of the Event about a Pod that was deleted by force.
const reasonForceDeleted = "PodForceDeleted"

// parallelReads is how many Nodes are read at the same time for one task.
const parallelReads = 16

// unreachableNodes returns since when those nodes of a task's Pods have been unreachable on which a
// Pod does not stop, or is not ready. They are read from the API server: Pods rarely take longer than they may, and
// nodes are rarely unreachable.
func (c *Controller) unreachableNodes(ctx context.Context, pods []*corev1.Pod) map[string]time.Time {
	var names []string
	for _, pod := range pods {
		if gputask.MayBeUnreachable(pod, c.clock.Now()) {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	var mu sync.Mutex
	since := map[string]time.Time{}
	var group errgroup.Group
	group.SetLimit(parallelReads)
	for _, name := range slices.Compact(names) {
		group.Go(func() error {
			node, err := c.clients.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil // Kubernetes deletes the Pods of nodes that are gone
			}
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			if at, unreachable := unreachableSince(node); unreachable {
				mu.Lock()
				defer mu.Unlock()
				since[name] = at
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		klog.FromContext(ctx).Error(err, "Whether the nodes of Pods that do not stop, or are not ready, are unreachable is not known")
	}
	return since
}

// unreachableSince returns since when the control plane has not heard of a node: its condition Ready
// is Unknown then.
func unreachableSince(node *corev1.Node) (since time.Time, unreachable bool) {
	for i := range node.Status.Conditions {
		if ready := &node.Status.Conditions[i]; ready.Type == corev1.NodeReady {
			return ready.LastTransitionTime.Time, ready.Status == corev1.ConditionUnknown
		}
	}
	return time.Time{}, false
}

// forceDelete deletes Pods without waiting for their nodes to confirm that they have stopped.
func (c *Controller) forceDelete(ctx context.Context, turn *turn, task *v1.GPUTask, pods []*corev1.Pod) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error {
		err := c.clients.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: podwrite.SameVersion(pod),
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("deleting Pod %s by force: %w", pod.Name, err)
		}
		c.recorder.Eventf(task, corev1.EventTypeWarning, reasonForceDeleted,
			"Pod %s is replaced although it may still run: its node %s has been unreachable for longer than unreachableNodeTimeoutSeconds",
			pod.Name, pod.Spec.NodeName)
		return nil
	})
}
