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
	"falldio.github.io/gpu-controller/test/node"
)

// TestAGangComputesTogetherAndRestartsAsAWhole has three containers with addresses of their own,
// which find each other by their names in DNS and sum vectors in a ring. One is killed; the
// others fail without it, and the next attempt finishes.
func TestAGangComputesTogetherAndRestartsAsAWhole(t *testing.T) {
	const size = 3
	s := newScene(t)
	node.RequireNetwork(s.T)
	s.startDNS()
	s.createTrainingGang("train", size)
	s.waitForLog("train-0", fmt.Sprintf("step 3 of attempt 0: the sum over %d members is right", size))
	s.killContainer("train-1")
	s.waitForTask("train", v1.PhaseSucceeded, "")
	task, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if task.Status.Restarts != 1 {
		t.Errorf("the task was restarted %d times, want once", task.Status.Restarts)
	}
	for member := range size {
		name, previous := fmt.Sprintf("train-%d", member), fmt.Sprintf("train-%d", (member+size-1)%size)
		s.waitForLog(previous, fmt.Sprintf("%s.train is at %s:", name, s.getPod(name).Status.PodIP))
		s.waitForLog(name, fmt.Sprintf("step 10 of attempt 1: the sum over %d members is right", size))
	}
}

// createTrainingGang submits a gang whose members compute together.
func (s *scene) createTrainingGang(name string, size int32) {
	s.Helper()
	spec := appSpec()
	spec.HostNetwork = false
	spec.Containers[0].Args = []string{"allreduce"}
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "ATTEMPT", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", v1.LabelAttempt)},
	}}}
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.GPUTaskSpec{GPU: gpuModel, GPUAmount: "1", Replicas: &size, Template: &corev1.PodTemplateSpec{Spec: spec}},
	}
	if _, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), task, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// waitForLog waits until the log of a Pod contains a text.
func (s *scene) waitForLog(pod, text string) {
	s.Helper()
	s.eventually(fmt.Sprintf("Pod %s prints %q", pod, strings.TrimSpace(text)), func() (bool, string) {
		log, err := s.node.Kube.CoreV1().Pods(s.namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(s.Context())
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(string(log), text), string(log)
	})
}

// killContainer kills the container of a running Pod, as the kernel does when memory is short. A
// container may run for a second or more before the Pod's status says so.
func (s *scene) killContainer(pod string) {
	s.Helper()
	var id string
	s.eventually(fmt.Sprintf("the status of Pod %s shows its running container", pod), func() (bool, string) {
		statuses := s.getPod(pod).Status.ContainerStatuses
		if len(statuses) != 1 || statuses[0].State.Running == nil {
			return false, fmt.Sprintf("%+v", statuses)
		}
		id = strings.TrimPrefix(statuses[0].ContainerID, "containerd://")
		return true, ""
	})
	if err := node.Ctr("--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id); err != nil {
		s.Fatal(err)
	}
}
