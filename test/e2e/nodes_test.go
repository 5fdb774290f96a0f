// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// addNode adds a simulated node with a GPU model that only this test uses, and waits
// until it is ready. It is deleted at the end of the test.
func (s *suite) addNode(name string, gpus int, change ...func(*corev1.Node)) *corev1.Node {
	s.Helper()
	model := s.namespace // no other test requests it
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), v1.ResourceGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.namespace + "-" + name,
			Labels: map[string]string{
				"type": "kwok", corev1.LabelHostname: s.namespace + "-" + name,
				v1.LabelGPUModel: model, v1.LabelGPUCount: strconv.Itoa(gpus),
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
	for _, apply := range change {
		apply(node)
	}
	nodes := s.cluster.kube.CoreV1().Nodes()
	created, err := nodes.Create(s.Context(), node, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		err := nodes.Delete(context.WithoutCancel(s.Context()), node.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("deleting node %s: %v", node.Name, err)
		}
	})
	s.eventually("node "+node.Name+" is ready", func() (bool, string) {
		got, err := nodes.Get(s.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return len(got.Spec.Taints) == 0, "tainted"
			}
		}
		return false, "not ready"
	})
	return created
}

// patchNode changes a node with a JSON merge patch.
func (s *suite) patchNode(name string, patch ...string) {
	s.Helper()
	_, err := s.cluster.kube.CoreV1().Nodes().Patch(s.Context(), name, types.MergePatchType, []byte(strings.Join(patch, "")), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// readiness is the condition Ready of a node, since a while ago.
func readiness(status corev1.ConditionStatus, since time.Duration) []corev1.NodeCondition {
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
	}}
}

// setReady changes the condition Ready of a node.
func (s *suite) setReady(node string, status corev1.ConditionStatus, since time.Duration) {
	s.Helper()
	if err := s.patchReady(s.Context(), node, status, since); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) patchReady(ctx context.Context, node string, status corev1.ConditionStatus, since time.Duration) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": readiness(status, since)}})
	if err != nil {
		return err
	}
	_, err = s.cluster.kube.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	return err
}

// evict evicts a Pod through the Eviction API.
func (s *suite) evict(pod string) {
	s.Helper()
	err := s.cluster.kube.CoreV1().Pods(s.namespace).EvictV1(s.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: s.namespace}})
	if err != nil {
		s.Fatal(err)
	}
}
