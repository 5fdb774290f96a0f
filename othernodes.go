// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// otherNodes reports whether there are nodes for a Pod that are none of the given ones, however full
// they are now. If the API server does not say, there may be. It is asked about tasks that fail
// otherwise only, so Nodes need not be cached for it.
func (c *Controller) otherNodes(ctx context.Context, pod *corev1.Pod, than []string) bool {
	nodes, err := c.clients.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"}) // from the API server's cache
	if err != nil {
		klog.FromContext(ctx).Error(err, "Whether other nodes are left for a task that nodes refuse is not known")
		return true
	}
	return slices.ContainsFunc(nodes.Items, func(node corev1.Node) bool {
		return !slices.Contains(than, node.Name) && isForPod(ctx, &node, pod)
	})
}

// isForPod reports whether a Pod may go to a node, and finds room there if nothing else runs on it.
func isForPod(ctx context.Context, node *corev1.Node, pod *corev1.Pod) bool {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !matches {
		return false
	}
	keepsAway := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	if _, found := schedulingv1.FindMatchingUntoleratedTaint(klog.FromContext(ctx), snapshot.Taints(node), pod.Spec.Tolerations, keepsAway, false); found {
		return false
	}
	for name, requested := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if allocatable := node.Status.Allocatable[name]; requested.Cmp(allocatable) > 0 {
			return false
		}
	}
	return true
}
