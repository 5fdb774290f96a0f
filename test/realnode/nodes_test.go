// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
)

// getNode returns the real node, also at the end of a test.
func (s *scene) getNode() *corev1.Node {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	node, err := s.node.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return node
}

// patchNode changes the real node with a JSON merge patch, also at the end of a test.
func (s *scene) patchNode(patch string) {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	_, err := s.node.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// waitForAllocatable waits until the real node is ready and offers exactly this
// much of a resource.
func (s *scene) waitForAllocatable(name corev1.ResourceName, count int64) {
	s.Helper()
	s.waitForReport(time.Time{}, name, count)
}

// waitForReport waits until the kubelet has reported, since the given time, that the
// node is ready and offers exactly this much of a resource. A report from before it
// was killed does not count.
func (s *scene) waitForReport(since time.Time, name corev1.ResourceName, count int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("node %s offers %d %s", node.Name, count, name), func() (bool, string) {
		node := s.getNode()
		offered := node.Status.Allocatable[name]
		ready := readySince(node)
		return offered.Value() == count && !ready.IsZero() && !ready.Before(since.Truncate(time.Second)),
			fmt.Sprintf("it offers %s, ready: %s", offered.String(), ready)
	})
}

// readySince returns when a node's kubelet last reported that it is ready; zero if
// it is not ready or not schedulable.
func readySince(node *corev1.Node) time.Time {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return time.Time{}
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return condition.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

// inventoryOfNode returns what the agent published about the real node's GPUs.
func (s *scene) inventoryOfNode() *inventory.Inventory {
	s.Helper()
	published, err := inventory.Parse(s.getNode().Annotations[inventory.Annotation])
	if err != nil {
		s.Fatal(err)
	}
	return published
}

// addSimulatedNode adds a node simulated by localcluster's KWOK, with this many GPUs
// of the real node's model. It is deleted at the end of the test.
func (s *scene) addSimulatedNode(name string, gpus int64) {
	s.Helper()
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"type": "kwok", corev1.LabelHostname: name,
				v1.LabelGPUModel: gpuModel, v1.LabelGPUCount: strconv.FormatInt(gpus, 10),
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Allocatable: resources, Capacity: resources},
	}
	if _, err := s.node.Kube.CoreV1().Nodes().Create(s.Context(), node, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.simulated = append(s.simulated, name)
}
