// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestASecondControllerTakesOver runs two controllers with the lease of the
// shipped Deployment. The standby must take over within seconds, both when the
// leader shuts down and releases its lease and when it is killed.
func TestASecondControllerTakesOver(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	census := s.takeCensus()
	elect := []string{
		"--leader-elect=true", "--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
	}
	leader := s.startController(elect...)
	s.create(newTask("first", 1, "1s"))
	s.waitForPhase("first", v1.PhaseSucceeded)
	standby := s.startController(elect...)
	holder := s.leaseHolder()
	s.create(newTask("stays", 2, "forever"))
	s.waitForPhase("stays", v1.PhaseRunning)

	begin := time.Now()
	if err := stopProcess(leader.command); err != nil {
		t.Fatalf("the leader ended with: %v", err)
	}
	s.waitForNewHolder(holder)
	t.Logf("hand-over after SIGTERM: %v", time.Since(begin).Round(time.Millisecond))
	s.create(newTask("second", 1, "1s"))
	s.waitForPhase("second", v1.PhaseSucceeded)

	holder = s.leaseHolder()
	third := s.startController(elect...)
	begin = time.Now()
	standby.kill()
	s.waitForNewHolder(holder)
	t.Logf("hand-over after SIGKILL: %v", time.Since(begin).Round(time.Millisecond))
	s.create(newTask("third", 1, "1s"))
	s.waitForPhase("third", v1.PhaseSucceeded)

	if doubles := census.doubles(); len(doubles) > 0 {
		t.Errorf("Pods were created more than once: %v", doubles)
	}
	if err := stopProcess(third.command); err != nil {
		t.Errorf("the last leader ended with: %v", err)
	}
}

func (s *suite) leaseHolder() string {
	s.Helper()
	lease, err := s.cluster.kube.CoordinationV1().Leases("gpu-controller-system").Get(s.Context(), "gpu-controller", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (s *suite) waitForNewHolder(old string) {
	s.Helper()
	s.eventually("another controller holds the lease", func() (bool, string) {
		holder := s.leaseHolder()
		return holder != "" && holder != old, fmt.Sprintf("%q does", holder)
	})
}
