// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
)

// TestPodsGetTheGPUsThatTheSchedulerChose binds Pods as a scheduler that chooses
// devices does: with the choice in the Binding's annotations. The kubelet would not
// choose these GPUs by itself. Pods of one size may swap theirs, so the sizes differ.
func TestPodsGetTheGPUsThatTheSchedulerChose(t *testing.T) {
	s := newScene(t)
	all := s.inventoryOfNode().GPUs
	choices := map[string][]string{
		"one":   {all[8].UUID},
		"two":   {all[2].UUID, all[7].UUID},
		"three": {all[1].UUID, all[5].UUID, all[9].UUID},
	}
	for name := range choices {
		s.createUnscheduledPod(name, v1.ResourceGPU, int64(len(choices[name])))
	}
	for name, choice := range choices {
		s.bind(name, v1.ResourceGPU, choice...)
	}
	for name, choice := range choices {
		slices.Sort(choice)
		got := s.devicesOf(s.waitForPod(name))[string(v1.ResourceGPU)]
		if diff := cmp.Diff(choice, got); diff != "" {
			t.Errorf("GPUs of Pod %s (-chosen +got):\n%s", name, diff)
		}
	}
}

// createUnscheduledPod creates a Pod with devices that no scheduler handles.
func (s *scene) createUnscheduledPod(name string, resourceName corev1.ResourceName, amount int64) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appSpec()}
	pod.Spec.SchedulerName = "none"
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{resourceName: *resource.NewQuantity(amount, resource.DecimalSI)}
	if _, err := s.node.Kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// bind binds a Pod to the real node with a choice of GPUs, for the resource that it
// requests.
func (s *scene) bind(name string, resourceName corev1.ResourceName, gpus ...string) {
	s.Helper()
	var choice inventory.Assignment
	choice.Add(v1.ContainerName, string(resourceName), gpus...)
	annotation, err := choice.String()
	if err != nil {
		s.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Annotations: map[string]string{inventory.AssignmentAnnotation: annotation}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name},
	}
	if err := s.node.Kube.CoreV1().Pods(s.namespace).Bind(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}
