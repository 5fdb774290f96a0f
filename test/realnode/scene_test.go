// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// limit is how long a test waits for something that normally takes a second or
// two.
const limit = time.Minute

// scene is a test that has the node for itself, and a namespace of its own.
// Tests run one after the other.
type scene struct {
	*testing.T
	node      *realNode
	namespace string
	// simulated are the names of the simulated nodes that the test has added.
	simulated []string
	logsShown bool
	// agentLogBefore is how long the agent's log was when the scene began.
	agentLogBefore int
}

// newScene returns when the agent runs and the node's devices are unused. All Pods
// of the test are deleted at its end.
func newScene(t *testing.T) *scene {
	t.Helper()
	if missing != "" {
		t.Skipf("a real node cannot run here: %s", missing)
	}
	s := &scene{T: t, node: shared}
	t.Cleanup(s.showLogs)
	if s.node.agent != nil {
		if log, err := os.Stat(s.node.agent.Log); err == nil {
			s.agentLogBefore = int(log.Size())
		}
	}
	namespaces := s.node.Kube.CoreV1().Namespaces()
	created, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "realnode-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.namespace = created.Name
	t.Cleanup(s.clear)
	s.eventually("the namespace has a service account", func() (bool, string) {
		_, err := s.node.Kube.CoreV1().ServiceAccounts(s.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	if s.node.agent == nil || !s.node.agent.Running() {
		s.startAgent()
	} else {
		t.Cleanup(s.checkAgentLog)
	}
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.waitForAllocatable(resourceRDMA, rdmas)
	return s
}

// showLogs shows the ends of all logs once if the test has failed.
func (s *scene) showLogs() {
	if s.Failed() && !s.logsShown {
		s.node.PrintLogs(s.Output())
		s.logsShown = true
	}
}

// clear deletes everything that the test created and waits until its Pods are gone
// from the node. Deleting the namespace alone would take 5 seconds.
func (s *scene) clear() {
	ctx := context.WithoutCancel(s.Context())
	pods := s.node.Kube.CoreV1().Pods(s.namespace)
	err := errors.Join(
		s.node.Tasks.FalldioV1().GPUTasks(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.node.Kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}),
	)
	if err != nil {
		s.Errorf("clearing the scene: %v", err)
	}
	s.eventually("all Pods of the test are gone", func() (bool, string) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == 0, fmt.Sprintf("%d are left", len(list.Items))
	})
	for _, name := range s.simulated { // not earlier: their Pods would never end
		if err := s.node.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting node %s: %v", name, err)
		}
	}
}

// eventually waits until a condition holds; its text describes the current state
// otherwise.
func (s *scene) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	s.within(limit, what, holds)
}

// within is eventually with a limit of its own.
func (s *scene) within(limit time.Duration, what string, holds func() (bool, string)) {
	s.Helper()
	node.Eventually(s.T, limit, what, holds)
}
