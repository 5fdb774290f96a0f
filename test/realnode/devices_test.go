// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
)

func TestTheNodeShowsItsGPUs(t *testing.T) {
	s := newScene(t)
	for label, want := range map[string]string{
		v1.LabelGPUModel:  gpuModel,
		v1.LabelGPUCount:  fmt.Sprint(gpus),
		v1.LabelGPUMemory: "81559",
		v1.LabelGPUHealth: inventory.Healthy,
	} {
		s.waitForLabel(label, want)
	}
	published := s.inventoryOfNode()
	if len(published.GPUs) != gpus {
		t.Errorf("the inventory has %d GPUs, want %d", len(published.GPUs), gpus)
	}
	for _, gpu := range published.GPUs {
		if gpu.Health != inventory.Healthy || gpu.Model != gpuModel || !strings.HasPrefix(gpu.UUID, "GPU-") {
			t.Errorf("the inventory has %+v", gpu)
		}
	}
}

// TestTasksShareTheNode covers a typical sequence: a task gets the devices that it
// requests, another one waits until there is a second node, and when the first is
// gone a Pod takes GPUs and network cards.
func TestTasksShareTheNode(t *testing.T) {
	s := newScene(t)
	s.createTask("large", 8)
	pod := s.waitForPod("large")
	if pod.Spec.NodeName != node.Name {
		t.Fatalf("the task runs on %s", pod.Spec.NodeName)
	}
	s.devicesAre(pod, map[corev1.ResourceName]int{v1.ResourceGPU: 8})
	s.waitForTask("large", v1.PhaseRunning, "")

	s.createTask("small", 3)
	s.waitForTask("small", v1.PhasePending, "needs 3 GPUs of "+gpuModel)
	s.addSimulatedNode("simulated-0", 4)
	s.waitForTask("small", v1.PhaseRunning, "")
	if node := s.getPod("small").Spec.NodeName; node != "simulated-0" {
		t.Errorf("the task runs on %s", node)
	}

	s.deleteTask("large")
	s.createPod("both", map[corev1.ResourceName]int64{v1.ResourceGPU: 2, resourceRDMA: rdmas})
	s.devicesAre(s.waitForPod("both"), map[corev1.ResourceName]int{v1.ResourceGPU: 2, resourceRDMA: rdmas})
}

// TestTwoPodsGetDifferentDevices fills the node to the last GPU.
func TestTwoPodsGetDifferentDevices(t *testing.T) {
	s := newScene(t)
	s.createGPUPod("one", 6)
	s.createGPUPod("other", gpus-6)
	one, other := s.devicesOf(s.waitForPod("one")), s.devicesOf(s.waitForPod("other"))
	s.haveNothingInCommon(one[string(v1.ResourceGPU)], other[string(v1.ResourceGPU)])
}

// devicesAre fails the test unless a running Pod has exactly this many devices,
// all of which belong to the node.
func (s *scene) devicesAre(pod *corev1.Pod, want map[corev1.ResourceName]int) {
	s.Helper()
	devices := s.devicesOf(pod)
	if len(devices) != len(want) {
		s.Errorf("Pod %s has %v, want %v", pod.Name, devices, want)
	}
	for resourceName, count := range want {
		if got := len(devices[string(resourceName)]); got != count {
			s.Errorf("Pod %s has %d %s, want %d", pod.Name, got, resourceName, count)
		}
	}
	known := map[string]bool{}
	for _, gpu := range s.inventoryOfNode().GPUs {
		known[gpu.UUID] = true
	}
	for _, id := range devices[string(v1.ResourceGPU)] {
		if !known[id] {
			s.Errorf("Pod %s has GPU %s, which the node does not", pod.Name, id)
		}
	}
}

// waitForLabel waits until the real node has a label with this value.
func (s *scene) waitForLabel(label, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("node %s has the label %s=%s", node.Name, label, want), func() (bool, string) {
		got, there := s.getNode().Labels[label]
		return got == want, fmt.Sprintf("%q (there: %v)", got, there)
	})
}

// createTask submits a GPUTask for GPUs of the real node's model.
func (s *scene) createTask(name string, gpus int) {
	s.Helper()
	s.createGang(name, 1, gpus)
}

// createGang submits a GPUTask of several Pods, which request this many GPUs each.
func (s *scene) createGang(name string, replicas int32, gpus int) {
	s.Helper()
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.GPUTaskSpec{
			GPU: gpuModel, GPUAmount: fmt.Sprint(gpus), Replicas: &replicas,
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"simulation.falldio.com/duration": "forever"}},
				Spec:       appSpec(),
			},
		},
	}
	if _, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), task, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// waitForTask waits until a task has the phase and a message that contains the
// text. Its Pod has the same name.
func (s *scene) waitForTask(name string, phase v1.GPUTaskPhase, text string) {
	s.Helper()
	s.eventually(fmt.Sprintf("GPUTask %s is %s: %s", name, phase, text), func() (bool, string) {
		task, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return task.Status.Phase == phase && strings.Contains(task.Status.Message, text),
			fmt.Sprintf("%s: %s", task.Status.Phase, task.Status.Message)
	})
}

// deleteTask deletes a task and waits until its Pod is gone.
func (s *scene) deleteTask(name string) {
	s.Helper()
	if err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("the Pod of GPUTask "+name+" is gone", func() (bool, string) {
		list, err := s.node.Kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + name})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
}
