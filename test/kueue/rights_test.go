// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/test/auditlog"
)

// TestTheRightsToKueueAreThoseThatAreUsed compares what gpu-controller requests of Kueue's API with
// what artifacts/kueue grants it.
func TestTheRightsToKueueAreThoseThatAreUsed(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.gpuFit()
	s.queue("small", 1)
	s.queue("large", 2)
	class := s.priorityClass()
	s.submit("train", "small", 2, endsAfter("1s"), func(task *v1.GPUTask) { task.Labels[kueue.LabelPriorityClass] = class })
	s.becomes("train", v1.PhaseSuspended, `queue "small"`)
	s.patch("train", `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "large"}}}`)
	s.becomes("train", v1.PhaseSucceeded, "")
	s.submit("idle", "small", 2)
	s.becomes("idle", v1.PhaseSuspended, `queue "small"`)
	s.patch("idle", `{"spec": {"suspend": true}}`)

	granted := s.granted()
	s.eventually("every right has been used", func() (bool, string) {
		unused := maps.Clone(granted)
		for request := range s.requested() {
			delete(unused, request)
		}
		return len(unused) == 0, fmt.Sprint("unused are ", slices.Sorted(maps.Keys(unused)))
	})
	for request := range s.requested() {
		if !granted[request] {
			t.Errorf("gpu-controller lacks the right to %s", request)
		}
	}
}

// granted returns what artifacts/kueue grants gpu-controller, as "patch workloads/status".
func (s *suite) granted() map[string]bool {
	s.Helper()
	role, err := s.kube.RbacV1().ClusterRoles().Get(s.Context(), "gpu-controller-kueue", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	granted := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[verb+" "+resource] = true
			}
		}
	}
	return granted
}

// requested returns what gpu-controller has requested of Kueue's API so far, from the API server's
// audit log.
func (s *suite) requested() map[string]bool {
	s.Helper()
	file, err := os.Open(filepath.Join(s.dir, auditLog))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	requested := map[string]bool{}
	err = auditlog.Read(file, func(event *auditlog.Event) {
		if event.User != "system:serviceaccount:gpu-controller-system:gpu-controller" || event.Group != kueue.Group {
			return
		}
		requested[event.Verb+" "+event.Resource] = true
		if event.Verb == "watch" { // an API server that streams no lists is asked for them first
			requested["list "+event.Resource] = true
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	return requested
}
