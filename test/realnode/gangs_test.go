// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestAGangGetsWholeGPUsAndAShareAsTheSchedulerChose has gpu-scheduler place two
// Pods of a gang. Their containers must see the devices written with their Bindings.
// The partly used card must not be allocated as a whole.
func TestAGangGetsWholeGPUsAndAShareAsTheSchedulerChose(t *testing.T) {
	const whole, percent = 2, 46
	s := newScene(t)
	s.waitForAllocatable(v1.ResourceGPUPercent, 100*gpus)
	gang := map[string]string{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "2"}
	s.createLabelledPod("worker", gang, map[corev1.ResourceName]int64{v1.ResourceGPU: whole})
	s.createGPUPod("witness", 1) // shows that the scheduler has moved on
	s.waitForPod("witness")
	if node := s.getPod("worker").Spec.NodeName; node != "" {
		t.Fatalf("one of two Pods that need each other is on node %s", node)
	}
	s.deletePod("witness")
	s.createLabelledPod("launcher", gang, map[corev1.ResourceName]int64{v1.ResourceGPUPercent: percent})

	worker, launcher := s.waitForPod("worker"), s.waitForPod("launcher")
	if apart := scheduledAt(worker).Sub(scheduledAt(launcher)).Abs(); apart > time.Second { // the resolution of the times
		t.Errorf("the two Pods were bound %v apart", apart)
	}
	devices := s.devicesOf(worker)[string(v1.ResourceGPU)]
	if len(devices) != whole {
		t.Errorf("the worker has the GPUs %v, want %d", devices, whole)
	}
	s.isUncorrected("worker")
	shared := s.assignmentOf("launcher")[v1.ContainerName][string(v1.ResourceGPUPercent)]
	if len(shared) != 1 {
		t.Fatalf("the launcher's share is of the GPUs %v, want one", shared)
	}
	s.hasShare(launcher, percent, shared[0])
	s.haveNothingInCommon(devices, shared)

	// By count there is room on the node: two of its GPUs are allocated.
	s.createGPUPod("rest", gpus-whole)
	s.waitUntilItLacksGPUs("rest", gpus-whole)
	s.createGPUPod("most", gpus-whole-1)
	most := s.devicesOf(s.waitForPod("most"))[string(v1.ResourceGPU)]
	s.haveNothingInCommon(most, slices.Concat(devices, shared))
	s.deletePod("most")
	s.deletePod("launcher")
	s.haveNothingInCommon(s.devicesOf(s.waitForPod("rest"))[string(v1.ResourceGPU)], devices)
}

// TestAGangTakesNothingUntilThereIsRoomForAll has a task of two Pods, only one of
// which would fit.
func TestAGangTakesNothingUntilThereIsRoomForAll(t *testing.T) {
	const each, taken = 4, 3
	s := newScene(t)
	s.createGPUPod("before", taken)
	before := s.waitForPod("before")
	s.createGang("gang", 2, each)
	s.waitForTask("gang", v1.PhasePending, fmt.Sprintf("needs at once 2 × %d GPUs of %s", each, gpuModel))
	// It takes the GPUs that the gang does not hold. One of the same priority would have to end before the gang's
	// turn is expected.
	meanwhile := newPod("meanwhile", nil, map[corev1.ResourceName]int64{v1.ResourceGPU: gpus - taken})
	meanwhile.Spec.PriorityClassName = "system-cluster-critical"
	s.create(meanwhile)
	s.waitForPod("meanwhile")
	for _, name := range []string{"gang-0", "gang-1"} {
		if node := s.getPod(name).Spec.NodeName; node != "" {
			t.Errorf("Pod %s is on node %s", name, node)
		}
	}
	s.deletePod("meanwhile")
	s.deletePod(before.Name)
	s.waitForTask("gang", v1.PhaseRunning, "")
	one, other := s.waitForPod("gang-0"), s.waitForPod("gang-1")
	s.devicesAre(one, map[corev1.ResourceName]int{v1.ResourceGPU: each})
	s.devicesAre(other, map[corev1.ResourceName]int{v1.ResourceGPU: each})
	s.haveNothingInCommon(s.devicesOf(one)[string(v1.ResourceGPU)], s.devicesOf(other)[string(v1.ResourceGPU)])
}

// scheduledAt returns when a Pod was scheduled.
func scheduledAt(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
