// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// recoveryLimit is how long "within seconds" may take on a busy machine.
const recoveryLimit = 20 * time.Second

// TestPodsRunOnThroughACrash kills the kubelet, the agent, and both at once
// while a Pod runs. Its container must not be affected, it must keep its devices,
// and all others must be allocatable again within seconds.
func TestPodsRunOnThroughACrash(t *testing.T) {
	tests := map[string]func(*scene){
		"of the kubelet":  func(s *scene) { s.restart(s.node.Kubelet) },
		"of the agent":    (*scene).restartAgent,
		"of both at once": func(s *scene) { s.restart(s.node.Kubelet, s.node.agent) },
	}
	for name, crash := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.createGPUPod("before", 6)
			before := s.waitForPod("before")
			devices := s.devicesOf(before)

			crash(s)
			s.isUnaffected(before, devices)

			s.createGPUPod("too-large", gpus-6+1)
			s.waitUntilItLacksGPUs("too-large", gpus-6+1)
			s.createGPUPod("after", gpus-6)
			after := s.devicesOf(s.waitForPod("after"))
			s.haveNothingInCommon(devices[string(v1.ResourceGPU)], after[string(v1.ResourceGPU)])
			s.isUnaffected(before, devices)
		})
	}
}

// restart kills the kubelet together with other programs, and starts all again.
// It returns when all devices are allocatable again. It waits for more than a
// second, the resolution of timestamps in Kubernetes, before the start, so that
// the new kubelet's report can be distinguished from the old one by its time.
func (s *scene) restart(programs ...*node.Program) {
	s.Helper()
	for _, program := range programs {
		if err := program.Kill(); err != nil {
			s.Fatal(err)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	began := time.Now()
	for _, program := range programs {
		if err := program.Start(); err != nil {
			s.Fatal(err)
		}
	}
	s.waitForReport(began, v1.ResourceGPU, gpus)
	s.waitForReport(began, resourceRDMA, rdmas)
	s.checkRecovery(began)
}

// checkRecovery fails the test if it took longer than promised.
func (s *scene) checkRecovery(began time.Time) {
	s.Helper()
	took := time.Since(began)
	s.Logf("all devices are on offer after %v", took.Round(time.Millisecond))
	if took > recoveryLimit {
		s.Errorf("that takes %v, at most %v is promised", took, recoveryLimit)
	}
}

// restartAgent kills the agent and starts it again. In between, no device is
// allocatable, and a Pod waits.
func (s *scene) restartAgent() {
	s.Helper()
	if err := s.node.agent.Kill(); err != nil {
		s.Fatal(err)
	}
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.waitForAllocatable(resourceRDMA, 0)
	s.createGPUPod("patient", 1)
	s.waitUntilItLacksGPUs("patient", 1)
	began := time.Now()
	s.startAgent()
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.waitForAllocatable(resourceRDMA, rdmas)
	s.checkRecovery(began)
	s.devicesOf(s.waitForPod("patient"))
	s.deletePod("patient")
}
