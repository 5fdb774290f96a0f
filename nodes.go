// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// parallelReads is how many Nodes are read at the same time for one task.
const parallelReads = 16

// notReady returns the nodes that are not ready on which a Pod of a task does not stop, does not begin or is not ready.
// They are read from the API server: Pods rarely take longer than they may, and nodes are rarely not ready.
func (d *dependencies) notReady(ctx context.Context, pods []*corev1.Pod) map[string]*podfacts.NotReady {
	if d.clients.unreadable.nodes {
		return nil
	}
	var names []string
	for _, pod := range pods {
		if gputask.NodeMayBeNotReady(pod, d.clock.Now()) {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	var mu sync.Mutex
	found := map[string]*podfacts.NotReady{}
	var group errgroup.Group
	group.SetLimit(parallelReads)
	for _, name := range slices.Compact(names) {
		group.Go(func() error {
			node, err := d.clients.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil // Kubernetes deletes the Pods of nodes that are gone
			}
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			if state := podfacts.NodeNotReady(node); state != nil {
				mu.Lock()
				defer mu.Unlock()
				found[name] = state
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		klog.FromContext(ctx).Error(err, "Can't read some nodes of this task's Pods: its status may not say that they are not ready")
	}
	return found
}

// evictedFor returns what a Pod of a task was evicted for. Its node is read from the API server: evictions are rare.
func (d *dependencies) evictedFor(ctx context.Context, task types.UID, pod *corev1.Pod) v1.InterruptionReason {
	if d.rescheduling.Moves(task) {
		return v1.InterruptionMoved
	}
	if d.clients.unreadable.nodes {
		return v1.InterruptionEvicted
	}
	node, err := d.clients.kube.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err == nil && node.Spec.Unschedulable {
		return v1.InterruptionDrained
	}
	return v1.InterruptionEvicted // also if the node has gone meanwhile, or can't be read
}

// otherNodes reports whether there are nodes for a Pod that are none of the given ones, however full
// they are now. If the API server does not say, there may be. It is asked about tasks that fail
// otherwise only, so Nodes need not be cached for it.
func (d *dependencies) otherNodes(ctx context.Context, pod *corev1.Pod, than []string) bool {
	if d.clients.unreadable.nodes {
		return true
	}
	nodes, err := d.clients.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"}) // from the API server's cache
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
