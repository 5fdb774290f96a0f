// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

const slice = corev1.ResourceName("falldio.com/mig-1g.10gb")

// withSlices lets a node offer MIG slices.
func withSlices(count int64) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Allocatable[slice] = *resource.NewQuantity(count, resource.DecimalSI)
	}
}

// newGangOfSlices returns a gang of two Pods with two slices each, on the suite's own nodes.
func (s *suite) newGangOfSlices(name string) *v1.GPUTask {
	task := newTask(name, 2, "forever")
	task.Spec.GPU, task.Spec.GPUProfile, task.Spec.GPUAmount, task.Spec.Queue = s.namespace, "1g.10gb", "2", s.namespace
	return task
}

// TestAGangOfMIGSlicesStartsAsAWhole has six slices on two nodes: enough for one gang, and for one
// Pod of the next. Only a controller for all namespaces counts what queues use, so the test has a
// cluster of its own.
func TestAGangOfMIGSlicesStartsAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--nodes=name=other,model=other,count=1,gpus=1,gpu-memory=80Gi", "--controller="+programs.Binary("gpu-controller"))
	s.createQueue(s.namespace, &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere()})
	s.addNode("large", 0, withSlices(4))
	s.addNode("small", 0, withSlices(2))

	s.create(s.newGangOfSlices("first"))
	s.waitForPhase("first", v1.PhaseRunning)
	for _, pod := range s.podsOf("first") {
		requests := pod.Spec.Containers[0].Resources.Requests
		if amount := requests[slice]; amount.Value() != 2 || len(requests) != 1 {
			t.Errorf("Pod %s requests %v, want two slices", pod.Name, requests)
		}
	}
	// Two Pods with two sevenths of a GPU each, rounded down to hundredths.
	s.waitForQueue(s.namespace, "its gang holds 0.56 GPUs", func(queue *v1.GPUQueue) bool {
		return len(queue.Status.Resources) > 0 && queue.Status.Resources[0].Used == "0.56"
	})

	s.create(s.newGangOfSlices("second"))
	s.waitForMessage("second", "needs at once 2 × 2 MIG slices of profile 1g.10gb, on nodes with "+s.namespace)
	s.waitForMessage("second", "has too few free MIG slices of profile 1g.10gb")
	for _, pod := range s.podsOf("second") {
		if pod.Spec.NodeName != "" {
			t.Errorf("Pod %s of a gang that does not fit is on node %s", pod.Name, pod.Spec.NodeName)
		}
	}
	out, errOut, code := s.gputask("explain", "second").outcome(s)
	for _, text := range []string{
		"2 Pods, each 2 MIG slices of profile 1g.10gb on " + s.namespace,
		"2 of 6 MIG slices of profile 1g.10gb on 2 nodes, at most 2 together",
		"with 1 of its 2 Pods", "with 1 MIG slice of profile 1g.10gb for each Pod",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("the explanation lacks %q, exit code %d:\n%s%s", text, code, out, errOut)
		}
	}

	if err := s.tasks().Delete(context.WithoutCancel(t.Context()), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPhase("second", v1.PhaseRunning)
}

// TestMIGSlicesThatNoNodeHas waits for something that will never be.
func TestMIGSlicesThatNoNodeHas(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.addNode("some", 0, withSlices(4))
	task := newTask("large", 1, "forever")
	task.Spec.GPU, task.Spec.GPUProfile = s.namespace, "7g.80gb"
	s.create(task)
	s.waitForMessage("large", "it would not fit even if nothing else ran; ")
}
