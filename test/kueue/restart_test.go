// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// TestAPreemptionSurvivesTheDeathOfTheController runs before the tests that run in parallel, since
// it kills the controller of all of them.
func TestAPreemptionSurvivesTheDeathOfTheController(t *testing.T) {
	s := newSuite(t)
	s.queue("team-a", 2, "preemption: {withinClusterQueue: LowerPriority}")
	class := s.priorityClass()
	task := s.submit("train", "team-a", 1, replicas(2))
	s.becomes("train", v1.PhaseRunning, "")
	if err := s.controller.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.controller.ended
	s.job("urgent", "team-a", 1, 2, func(job *batchv1.Job) { job.Labels[kueue.LabelPriorityClass] = class })
	s.eventually("Kueue has evicted the task", func() (bool, string) {
		return meta.IsStatusConditionTrue(s.workload(task).Status.Conditions, kueue.Evicted), s.workloadText(task)
	})
	if !s.workloadOfJob("urgent").ReservedAt().IsZero() {
		t.Error("the quota was given away while Pods hold it")
	}
	if err := s.startController(); err != nil {
		t.Fatal(err)
	}
	s.completes("urgent")
	s.becomes("train", v1.PhaseRunning, "")
}
