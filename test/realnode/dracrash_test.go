// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"net/http"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// TestOverDRANothingIsLostInACrash kills what gives a container its GPUs, each at four moments:
// while a Pod runs, when the next one comes, when that has got its GPUs, and when both end.
// Nothing may be left of the Pods, and all cards must be there for others.
func TestOverDRANothingIsLostInACrash(t *testing.T) {
	tests := map[string]func(*scene) func(){
		"of the driver":  func(s *scene) func() { return s.killForNow(s.node.driver) },
		"of the kubelet": func(s *scene) func() { return s.killForNow(s.node.Kubelet) },
		"of containerd":  func(s *scene) func() { s.restartContainerd(); return func() {} },
		"of all at once": func(s *scene) func() { s.restartContainerd(); return s.killForNow(s.node.Kubelet, s.node.driver) },
		"of all but runc": func(s *scene) func() {
			start := s.killForNow(s.node.driver, s.node.Kubelet, s.node.agent)
			s.restartContainerd()
			return start
		},
	}
	for name, crash := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.giveOutOverDRA()
			s.createWithClaim("before", 4, "")
			s.createWithClaim("share", 1, "46")
			cards, share := s.hasExactly("before", 4), s.hasExactly("share", 1)
			before := s.getPod("before")

			start := crash(s) // while they run
			s.createWithClaim("during", 2, "")
			start()
			s.waitForPrepared("during")
			during := s.hasExactly("during", 2)
			s.haveNothingInCommon(during, append(cards, share...))
			s.isUntouched(before, cards)

			start = crash(s) // after one has got its GPUs
			start()
			s.createWithClaim("after", 1, "50")
			s.hasExactly("after", 1)
			s.isUntouched(before, cards)
			s.claimsDescribed(2)

			start = crash(s) // while they end
			s.deleteInBackground("before")
			s.deleteInBackground("share")
			s.deleteInBackground("after")
			start()
			s.waitUntilGone("before")
			s.waitUntilGone("share")
			s.waitUntilGone("after")
			s.claimsDescribed(0)
			s.createWithClaim("rest", gpus-2, "")
			s.haveNothingInCommon(during, s.hasExactly("rest", gpus-2))
		})
	}
}

// killForNow kills programs, and returns what starts them again.
func (s *scene) killForNow(programs ...*node.Program) func() {
	s.Helper()
	for _, program := range programs {
		if err := program.Kill(); err != nil {
			s.Fatal(err)
		}
	}
	return func() {
		for _, program := range programs {
			if err := program.Start(); err != nil {
				s.Fatal(err)
			}
		}
		s.waitForDriver()
	}
}

// waitForDriver waits until the kubelet knows the driver, and the scheduler its devices.
func (s *scene) waitForDriver() {
	s.Helper()
	s.eventually("the driver is ready", func() (bool, string) {
		response, err := http.Get("http://" + driverAddress + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		return response.StatusCode == http.StatusOK, errors.Join(response.Body.Close(), errors.New(response.Status)).Error()
	})
	s.waitForDevices(gpus)
}

// TestOverDRAARestartedContainerHasTheSameCards restarts the container, which the runtime creates
// anew, while there is no driver.
func TestOverDRAARestartedContainerHasTheSameCards(t *testing.T) {
	s := newScene(t)
	s.giveOutOverDRA()
	s.createClaim("stays", 1, "46")
	pod := claimPod("stays", "stays")
	pod.Spec.RestartPolicy = "Always"
	s.create(pod)
	before := s.hasExactly("stays", 1)
	start := s.killForNow(s.node.driver)
	s.killContainer("stays")
	s.eventually("the container runs again", func() (bool, string) {
		now := s.getPod("stays")
		status := now.Status.ContainerStatuses
		return len(status) == 1 && status[0].RestartCount > 0 && status[0].State.Running != nil, now.Status.String()
	})
	after := s.injectedGPUs(s.getPod("stays"))
	if len(after) != 1 || after[0] != before[0] {
		t.Errorf("the container had %v and has %v", before, after)
	}
	if got := s.environmentOf(s.getPod("stays"))["GPU_SHARE_PERCENT"]; got != "46" {
		t.Errorf("the container is told of a share of %q, want 46", got)
	}
	start()
	s.waitForLabel(v1.LabelGPUHealth, v1.GPUsHealthy)
}
