// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestOverDRAAContainerSeesExactlyTheCardsOfItsClaim has Pods with whole GPUs and with shares.
func TestOverDRAAContainerSeesExactlyTheCardsOfItsClaim(t *testing.T) {
	s := newScene(t)
	s.giveOutOverDRA()
	s.createWithClaim("two", 2, "")
	two := s.hasExactly("two", 2)

	greedy := claimPod("greedy", "greedy")
	greedy.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}, {Name: "FALLDIO_VISIBLE_DEVICES", Value: "all"}}
	s.createClaim("greedy", 3, "")
	s.create(greedy)
	s.haveNothingInCommon(two, s.hasExactly("greedy", 3))

	s.createWithClaim("share", 1, "46")
	s.createWithClaim("other-share", 1, "46")
	s.createWithClaim("third-share", 1, "46")
	one, other, third := s.hasExactly("share", 1), s.hasExactly("other-share", 1), s.hasExactly("third-share", 1)
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("two shares of 46 %% are of different GPUs:\n%s", diff)
	}
	s.haveNothingInCommon(one, third)
	s.haveNothingInCommon(two, append(one, third...))
	if got := s.environmentOf(s.getPod("share"))["GPU_SHARE_PERCENT"]; got != "46" {
		t.Errorf("the container with a share is told %q, want 46", got)
	}
	if got, told := s.environmentOf(s.getPod("two"))["GPU_SHARE_PERCENT"]; told {
		t.Errorf("the container with whole GPUs is told of a share of %s", got)
	}
	s.claimsDescribed(3)

	s.removePods()
	s.claimsDescribed(0)
	s.createWithClaim("all", gpus, "")
	s.hasExactly("all", gpus)
}

// TestOverDRATheAgentObserves checks what the agent in observe mode says of a node whose GPUs the
// DRA driver gives out.
func TestOverDRATheAgentObserves(t *testing.T) {
	s := newScene(t)
	s.giveOutOverDRA()
	if _, err := os.Stat(cdiSpec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the agent describes GPUs that it does not give out: %v", err)
	}
	s.createWithClaim("two", 2, "")
	uuids := s.hasExactly("two", 2)
	s.waitForLabel(v1.LabelGPUHealth, v1.GPUsHealthy)
	s.waitForLabel(v1.LabelGPUCount, fmt.Sprint(gpus))
	for _, uuid := range uuids {
		s.eventually("the agent's metrics name the holder of "+uuid, func() (bool, string) {
			for line := range strings.Lines(s.metricsOf(agentAddress)) {
				if strings.HasPrefix(line, "falldio_gpu_holder{") && strings.Contains(line, uuid) {
					return strings.Contains(line, `pod="two"`), line
				}
			}
			return false, "there is no holder"
		})
	}
}

// TestAFaultBecomesATaintOfTheDevice breaks a GPU that a Pod has and one that is free, and repairs
// both.
func TestAFaultBecomesATaintOfTheDevice(t *testing.T) {
	const used, free = 4, 7 // the first ones are allocated first
	s := newScene(t)
	s.giveOutOverDRA()
	s.createWithClaim("bystander", 6, "")
	cards := s.hasExactly("bystander", 6)
	bystander := s.getPod("bystander")

	s.injectAt(driverAddress, used, "Lost")
	s.injectAt(driverAddress, free, "Lost")
	s.waitForTaint(used, v1.TaintGPUUnhealthy+"=Lost:NoSchedule")
	s.waitForTaint(free, v1.TaintGPUUnhealthy+"=Lost:NoSchedule")
	s.waitForUnhealthy("bystander", 1)
	s.createWithClaim("fits", gpus-7, "")
	s.haveNothingInCommon(cards, s.hasExactly("fits", gpus-7))
	s.deletePod("fits")
	s.createWithClaim("too-large", gpus-6, "")
	s.createWithClaim("fits-again", gpus-7, "")
	s.hasExactly("fits-again", gpus-7)
	if node := s.getPod("too-large").Spec.NodeName; node != "" {
		t.Error("a Pod has been given a broken GPU")
	}
	s.isUntouched(bystander, cards)

	s.injectAt(driverAddress, used, "Recovered")
	s.injectAt(driverAddress, free, "Recovered")
	s.waitForTaint(used, "")
	s.waitForTaint(free, "")
	s.waitForUnhealthy("bystander", 0)
	s.deletePod("fits-again")
	s.hasExactly("too-large", gpus-6)
	s.isUntouched(bystander, cards)
}

// waitForTaint waits until the device of a GPU has just this taint, or none.
func (s *scene) waitForTaint(index int64, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("GPU %d has the taint %q", index, want), func() (bool, string) {
		for _, device := range s.publishedDevices() {
			if *device.Attributes["index"].IntValue != index {
				continue
			}
			var taints []string
			for _, taint := range device.Taints {
				taints = append(taints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
			}
			got := strings.Join(taints, " ")
			return got == want, got
		}
		return false, "there is no such device"
	})
}

// waitForUnhealthy waits until the status of a Pod says how many of its GPUs are not healthy.
func (s *scene) waitForUnhealthy(pod string, count int) {
	s.Helper()
	s.eventually(fmt.Sprintf("the status of Pod %s says that %d GPUs are unhealthy", pod, count), func() (bool, string) {
		status := s.getPod(pod).Status.ContainerStatuses[0].AllocatedResourcesStatus
		unhealthy := 0
		for _, of := range status {
			for _, health := range of.Resources {
				if health.Health == corev1.ResourceHealthStatusUnhealthy {
					unhealthy++
				}
			}
		}
		return unhealthy == count, fmt.Sprintf("%+v", status)
	})
}

// TestACardThatSomebodyElseHasGivenAwayIsNotGivenAgain runs a device plugin beside the driver. A
// claim that is allocated a card all the same, as it tolerates the taint, is not prepared.
func TestACardThatSomebodyElseHasGivenAwayIsNotGivenAgain(t *testing.T) {
	s := newScene(t)
	s.startForeignPlugin()
	s.waitForAllocatable(v1.ResourceNVIDIAGPU, gpus)
	s.createPod("theirs", map[corev1.ResourceName]int64{v1.ResourceNVIDIAGPU: gpus})
	s.waitForPod("theirs")
	s.giveOutOverDRA()
	s.waitForTaint(0, "falldio.com/gpu-in-use=:NoSchedule")
	s.createWithClaim("waits", 1, "")
	s.createClaimWith("tolerant", func(request *resourceapi.ExactDeviceRequest) {
		request.Tolerations = []resourceapi.DeviceToleration{{Key: "falldio.com/gpu-in-use", Operator: resourceapi.DeviceTolerationOpExists}}
	})
	s.create(claimPod("tolerant", "tolerant"))
	s.eventually("the Pod that tolerates the taint is told who has the card", func() (bool, string) {
		if s.getPod("tolerant").Status.Phase == corev1.PodRunning {
			s.Fatal("the container runs, with a GPU that another one has")
		}
		events := s.eventsOf("tolerant")
		return strings.Contains(events, "is in use by container gpu-task of Pod "+s.namespace+"/theirs as nvidia.com/gpu"), events
	})
	if node := s.getPod("waits").Spec.NodeName; node != "" {
		t.Error("a claim that does not tolerate the taint has a card")
	}
	s.deletePod("theirs")
	s.waitForPrepared("tolerant")
	s.haveNothingInCommon(s.hasExactly("tolerant", 1), s.hasExactly("waits", 1))
}
