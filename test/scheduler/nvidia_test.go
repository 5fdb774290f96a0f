// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// createAsNVIDIA creates a gang's Pods, which ask for their GPUs as nvidia.com/gpu.
func (s *suite) createAsNVIDIA(g gang) {
	s.Helper()
	for index := range g.withDefaults(s).pods {
		pod := s.podOf(g, index)
		resources := &pod.Spec.Containers[0].Resources
		needs := resources.Requests.DeepCopy()
		needs[v1.ResourceNVIDIAGPU] = needs[v1.ResourceGPU]
		delete(needs, v1.ResourceGPU)
		resources.Requests, resources.Limits = needs, needs
		// Whatever its creator has written about its GPUs must not stay.
		pod.Annotations[inventory.AssignmentAnnotation] = `{"version":"v1","containers":{"work":{"nvidia.com/gpu":["GPU-of-somebody-else"]}}}`
		s.createPod(pod)
	}
}

// TestGangsOnNodesOfNVIDIAsDevicePlugin has a node whose cards have no names, and one of
// ours: each takes only the Pods that ask for its resource.
func TestGangsOnNodesOfNVIDIAsDevicePlugin(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "theirs", gpus: 4, nvidia: true}, machine{name: "ours", gpus: 4})
	s.createAsNVIDIA(gang{name: "first", pods: 3})
	s.waitForBound(3, "first")
	s.createAsNVIDIA(gang{name: "second", pods: 2})
	s.waitForRefusal("second", "does not offer nvidia.com/gpu")
	if bound := countPods(s.ledger.podsOf("second"), isHolding); bound > 0 {
		t.Errorf("%d Pods of a gang are bound that does not fit as a whole", bound)
	}
	s.createPods(gang{name: "of-ours", pods: 4})
	s.waitForBound(4, "of-ours")
	background := metav1.DeletePropagationBackground
	if err := s.kube.CoreV1().Pods(s.namespace).Delete(s.Context(), "first-0", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	s.waitForBound(2, "second")
	for name, node := range map[string]string{"second": "theirs", "of-ours": "ours"} {
		for _, got := range s.nodesOf(name) {
			if got != node {
				t.Errorf("a Pod of %s is on node %s", name, got)
			}
		}
	}
	for _, pod := range s.ledger.podsOf("second") {
		if text := pod.Annotations[inventory.AssignmentAnnotation]; text != "" {
			t.Errorf("Pod %s was bound with the assignment %s", pod.Name, text)
		}
	}
	s.refusesBothNames()
}

// refusesBothNames creates a Pod that asks for GPUs under both names.
func (s *suite) refusesBothNames() {
	s.Helper()
	pod := s.podOf(gang{name: "both", infeasible: true}, 0)
	resources := &pod.Spec.Containers[0].Resources
	needs := resources.Requests.DeepCopy()
	needs[v1.ResourceNVIDIAGPU] = needs[v1.ResourceGPU]
	resources.Requests, resources.Limits = needs, needs
	s.createPod(pod)
	s.waitForRefusal("both", "ask for all of them with one of the names")
}
