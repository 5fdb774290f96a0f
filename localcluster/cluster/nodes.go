// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

const (
	parallelCreations = 16
	nodeInterval      = 200 * time.Millisecond
	releaseTimeout    = 5 * time.Second
)

func createNodes(ctx context.Context, client typedcorev1.NodeInterface, nodes []*corev1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelCreations)
	for _, node := range nodes {
		group.Go(func() error {
			_, err := client.Create(ctx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// waitForNodes returns when all nodes are schedulable.
func (c *cluster) waitForNodes(ctx context.Context) error {
	want := c.options.Profile.Count()
	ready := 0
	err := wait.PollUntilContextCancel(ctx, nodeInterval, true, func(ctx context.Context) (bool, error) {
		// Any version will do, so the API server may answer from its cache.
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, nil //nolint:nilerr // it may work the next time
		}
		ready = countReady(nodes.Items, c.options.NodeAgent != "")
		return ready >= want, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d nodes became ready: %w", ready, want, err)
	}
	c.console.done("%d nodes ready", want)
	return nil
}

// countReady counts the schedulable nodes. With an agent, those with GPUs must
// also have its labels.
func countReady(nodes []corev1.Node, agent bool) int {
	count := 0
	for i := range nodes {
		ready := podfacts.ReadyCondition(&nodes[i])
		if ready != nil && ready.Status == corev1.ConditionTrue && !isTaintedNotReady(&nodes[i]) && (!agent || isLabelled(&nodes[i])) {
			count++
		}
	}
	return count
}

func isLabelled(node *corev1.Node) bool {
	_, hasGPUs := node.Status.Capacity[v1.ResourceGPU]
	return !hasGPUs || node.Labels[v1.LabelGPUCount] != ""
}

// isTaintedNotReady reports whether a node has the taint of new nodes. The
// controller manager removes it when it observes that they are ready; the scheduler
// avoids them until then.
func isTaintedNotReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
}

// releaseNodes deletes the leases of all nodes. A restarted KWOK would otherwise
// wait until those held by its predecessor have expired.
func (c *cluster) releaseNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		c.console.trouble("releasing the nodes from the last kwok: %v; it will take until their leases have expired", err)
	}
}
