// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// TestPodsShareTheGPUThatTheSchedulerChose has two Pods fill a GPU, which is not
// allocated as a whole until they are gone.
func TestPodsShareTheGPUThatTheSchedulerChose(t *testing.T) {
	s := newScene(t)
	s.waitForAllocatable(v1.ResourceGPUPercent, 100*gpus)
	chosen := s.inventoryOfNode().GPUs[7].UUID
	shares := map[string]int64{"less": 46, "more": 54}
	for name, percent := range shares {
		s.createUnscheduledPod(name, v1.ResourceGPUPercent, percent)
		s.bind(name, v1.ResourceGPUPercent, chosen)
	}
	for name, percent := range shares {
		s.hasShare(s.waitForPod(name), percent, chosen)
	}

	s.createUnscheduledPod("whole", v1.ResourceGPU, 1)
	s.bind("whole", v1.ResourceGPU, chosen)
	s.waitUntilRefused("whole", "shares of GPU "+chosen+" are in use by")

	for name := range shares {
		s.deletePod(name)
	}
	s.createUnscheduledPod("whole-2", v1.ResourceGPU, 1)
	s.bind("whole-2", v1.ResourceGPU, chosen)
	if diff := cmp.Diff([]string{chosen}, s.devicesOf(s.waitForPod("whole-2"))[string(v1.ResourceGPU)]); diff != "" {
		t.Errorf("GPUs of the Pod that wants a whole one (-chosen +got):\n%s", diff)
	}
	s.createUnscheduledPod("part", v1.ResourceGPUPercent, 1)
	s.bind("part", v1.ResourceGPUPercent, chosen)
	s.waitUntilRefused("part", "GPU "+chosen+" is in use as a whole by")
}

// hasShare fails the test unless a running Pod sees this share of a GPU, the kubelet
// has recorded the same, and the agent had nothing to correct.
func (s *scene) hasShare(pod *corev1.Pod, percent int64, gpu string) {
	s.Helper()
	seen, share := s.injectedGPUs(pod), s.environmentOf(pod)["GPU_SHARE_PERCENT"]
	if !slices.Equal(seen, []string{gpu}) || share != fmt.Sprint(percent) {
		s.Errorf("Pod %s sees %s %% of %v, want %d %% of %s", pod.Name, share, seen, percent, gpu)
	}
	s.eventually("the kubelet's notes name the share of Pod "+pod.Name, func() (bool, string) {
		noted, err := checkpointed(pod.UID)
		if err != nil {
			return false, err.Error()
		}
		ids := noted[string(v1.ResourceGPUPercent)]
		for _, id := range ids {
			if !strings.HasPrefix(id, gpu+"::") {
				s.Errorf("Pod %s has %s", pod.Name, id)
			}
		}
		return int64(len(ids)) == percent, fmt.Sprint(noted)
	})
	want := map[string]map[string][]string{v1.ContainerName: {string(v1.ResourceGPUPercent): {gpu}}}
	if diff := cmp.Diff(want, s.assignmentOf(pod.Name)); diff != "" {
		s.Errorf("annotation of Pod %s (-want +got):\n%s", pod.Name, diff)
	}
	s.isUncorrected(pod.Name)
	s.saysNothingIsEnforced(pod.Name)
}

// assignmentOf returns the devices in a Pod's annotation, by container and resource.
func (s *scene) assignmentOf(name string) map[string]map[string][]string {
	s.Helper()
	assignment, err := inventory.ParseAssignment(s.getPod(name).Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		s.Fatal(err)
	}
	return assignment.Containers
}

// isUncorrected fails the test if the agent has corrected the devices of a Pod: the kubelet
// must have allocated what the scheduler chose.
func (s *scene) isUncorrected(name string) {
	s.Helper()
	log, err := os.ReadFile(s.node.agent.Log)
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(log[min(s.agentLogBefore, len(log)):])) {
		if strings.Contains(line, "Corrected a Pod's annotation") && strings.Contains(line, s.namespace+"/"+name) {
			s.Errorf("the agent has corrected Pod %s: %s", name, line)
		}
	}
}

// saysNothingIsEnforced waits until the agent has stated what limits a Pod to its share.
func (s *scene) saysNothingIsEnforced(name string) {
	s.Helper()
	s.eventually("Pod "+name+" says that nothing limits it to its share", func() (bool, string) {
		text := s.getPod(name).Annotations[inventory.AssignmentAnnotation]
		assignment, err := inventory.ParseAssignment(text)
		return err == nil && assignment.Enforcement[v1.ContainerName] == inventory.EnforcementNone, text
	})
}

// waitUntilRefused waits until the kubelet has rejected a Pod with the reason.
func (s *scene) waitUntilRefused(name, reason string) {
	s.Helper()
	s.eventually(fmt.Sprintf("Pod %s is refused: %s", name, reason), func() (bool, string) {
		status := s.getPod(name).Status
		if status.Phase == corev1.PodRunning {
			s.Fatalf("Pod %s runs", name)
		}
		refused := status.Phase == corev1.PodFailed && status.Reason == "UnexpectedAdmissionError" && strings.Contains(status.Message, reason)
		return refused, fmt.Sprintf("%s %s: %s", status.Phase, status.Reason, status.Message)
	})
}
