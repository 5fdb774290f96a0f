// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/admissioncheck"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// gpuFit creates an AdmissionCheck that gpu-controller answers, and returns what a ClusterQueue
// says to ask it.
func (s *suite) gpuFit() string {
	s.Helper()
	s.create(kueue.AdmissionChecks, "", fmt.Sprintf("kind: AdmissionCheck\nmetadata: {name: %s}\nspec: {controllerName: %s}", s.namespace, admissioncheck.ControllerName))
	return fmt.Sprintf("admissionChecksStrategy: {admissionChecks: [{name: %s}]}", s.namespace)
}

// The tests of the check run one after the other, and before those that run in parallel: they are
// about the places of the whole cluster, 8 nodes with 8 GPUs each.
func TestGPUFit(t *testing.T) {
	s := newSuite(t)
	s.queue("team-a", 1000, s.gpuFit())
	t.Run("a task is admitted when there are places for it", func(*testing.T) {
		// A GPU of each node of the cluster is in use: there is quota for 8 Pods with 8 GPUs, and no place.
		s.submit("blocker", "team-a", 5, replicas(8))
		s.becomes("blocker", v1.PhaseRunning, "")
		gang := s.submit("gang", "team-a", 8, replicas(4))
		s.becomes("gang", v1.PhaseSuspended, "waiting for Kueue's admission checks: "+s.namespace+": there is no place for all of its Pods now")
		s.retries(gang)
		if pods := s.pods("gang"); len(pods) > 0 {
			t.Errorf("there are %d Pods without a place", len(pods))
		}
		s.patch("blocker", `{"spec": {"suspend": true}}`)
		s.becomes("gang", v1.PhaseRunning, "")
		if check := s.workload(gang).Check(s.namespace); check == nil || check.State != kueue.CheckReady || !strings.Contains(check.Message, "there is a place") {
			t.Errorf("the check says %+v", check)
		}
		s.patch("gang", `{"spec": {"suspend": true}}`)
		s.becomes("gang", v1.PhaseSuspended, "kubectl gputask resume gang")
	})
	t.Run("a task gets the domain that it has to be in", func(*testing.T) {
		task := s.submit("near", "team-a", 8, replicas(3), func(task *v1.GPUTask) {
			task.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyRequired}
		})
		s.becomes("near", v1.PhaseRunning, "")
		leaf := s.workload(task).Check(s.namespace).PodSetUpdates[0].NodeSelector[v1.LabelLeaf]
		for _, pod := range s.pods("near") {
			node, err := s.kube.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if leaf == "" || pod.Spec.NodeSelector[v1.LabelLeaf] != leaf || node.Labels[v1.LabelLeaf] != leaf {
				t.Errorf("Pod %s with the node selector %v is in %s, the check says %q", pod.Name, pod.Spec.NodeSelector, node.Labels[v1.LabelLeaf], leaf)
			}
		}
		s.patch("near", `{"spec": {"suspend": true}}`)
		s.becomes("near", v1.PhaseSuspended, "kubectl gputask resume near")
	})
	t.Run("a Job is admitted when there are places for it", s.jobFits)
}

// retries waits until a check has let a Workload give its quota back, and it queues again.
func (s *suite) retries(task *v1.GPUTask) {
	s.Helper()
	s.eventually("it has given its quota back and queues again", func() (bool, string) {
		check := s.workload(task).Check(s.namespace)
		return check != nil && check.RetryCount != nil && *check.RetryCount > 0, s.workloadText(task)
	})
}

func (s *suite) jobFits(*testing.T) {
	s.submit("blocker-of-job", "team-a", 1, replicas(64))
	s.becomes("blocker-of-job", v1.PhaseRunning, "")
	s.job("job", "team-a", 2, 8)
	s.eventually("the Job has no place", func() (bool, string) {
		workload := s.workloadOfJob("job")
		if workload == nil {
			return false, "it has no Workload"
		}
		check := workload.Check(s.namespace)
		return check != nil && strings.Contains(check.Message, "there is no place"), fmt.Sprintf("%+v", check)
	})
	s.patch("blocker-of-job", `{"spec": {"suspend": true}}`)
	s.completes("job")
}
