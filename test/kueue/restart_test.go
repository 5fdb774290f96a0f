// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// TestAnEvictionSurvivesTheDeathOfTheController runs before the tests that run in parallel, since it
// kills the controller of all of them.
func TestAnEvictionSurvivesTheDeathOfTheController(t *testing.T) {
	s := newSuite(t)
	s.queue("team-a", 2)
	train := s.submit("train", "team-a", 1, replicas(2))
	s.becomes("train", v1.PhaseRunning, "")
	other := s.submit("other", "team-a", 1, replicas(2))
	s.becomes("other", v1.PhaseSuspended, "waiting for quota")
	if err := s.controller.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.controller.ended
	s.patchKueue(kueue.Workloads, s.namespace, kueue.WorkloadName(train), `{"spec": {"active": false}}`)
	s.eventually("Kueue has evicted the task", func() (bool, string) {
		return meta.IsStatusConditionTrue(s.workload(train).Status.Conditions, kueue.Evicted), s.workloadText(train)
	})
	if meta.IsStatusConditionTrue(s.workload(other).Status.Conditions, kueue.QuotaReserved) {
		t.Error("the quota was given away while Pods hold it")
	}
	if err := s.startController(); err != nil {
		t.Fatal(err)
	}
	s.becomes("train", v1.PhaseSuspended, "is deactivated")
	s.becomes("other", v1.PhaseRunning, "")
	if pods := s.pods("train"); len(pods) > 0 {
		t.Errorf("it still has %d Pods", len(pods))
	}
}
