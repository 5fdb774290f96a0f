// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// installInNamespace installs artifacts/namespaced in the suite's namespace and returns the arguments of the
// controller's Deployment.
func (s *suite) installInNamespace() []string {
	s.Helper()
	folder := s.TempDir()
	source, err := filepath.Abs(filepath.Join(programs.Root(), "artifacts", "namespaced"))
	if err != nil {
		s.Fatal(err)
	}
	if source, err = filepath.Rel(folder, source); err != nil { // kustomize takes no other paths
		s.Fatal(err)
	}
	text := fmt.Sprintf("namespace: %s\nresources: [%s]\n", s.namespace, source)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.apply("-k", folder)
	deployment, err := s.cluster.kube.AppsV1().Deployments(s.namespace).Get(s.Context(), "gpu-controller", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var args []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", s.namespace))
	}
	return args
}

var refusedRequests = regexp.MustCompile(`(?m)^rest_client_requests_total\{code="40[13]".*$`)

// TestAControllerOfOneNamespaceNeedsNoRightOutsideOfIt: it does its work with what artifacts/namespaced grants, and
// asks for nothing more.
func TestAControllerOfOneNamespaceNeedsNoRightOutsideOfIt(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	args := s.installInNamespace()
	c := s.startController(append(args, "--leader-elect=true", "--kubeconfig="+s.kubeconfigOf("gpu-controller"), "--metrics-bind-address=127.0.0.1:0")...)

	gang := newTask("gang", 2, "2s")
	gang.Spec.TTLSecondsAfterFinished = new(int32(3600))
	gang.Spec.MaxRuntimeSeconds = new(int64(3600)) // which an admission policy lets only gpu-controller write into Pods
	s.create(gang)
	s.waitForPhase("gang", v1.PhaseSucceeded)

	s.create(newTask("evicted", 1, "forever"))
	s.waitForPhase("evicted", v1.PhaseRunning)
	before := s.podsOf("evicted")[0]
	s.evict(before.Name)
	s.waitForPods("evicted", "the evicted one is replaced", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].UID != before.UID && pods[0].Status.Phase == corev1.PodRunning
	})

	expired := newTask("expired", 1, "1s")
	expired.Spec.TTLSecondsAfterFinished = new(int32(0))
	s.create(expired)
	s.waitUntilGone("expired")

	status, metrics, err := get(t.Context(), http.DefaultClient, "http://"+c.address()+"/metrics", "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("metrics: %d, %v", status, err)
	}
	if found := refusedRequests.FindAllString(metrics, -1); len(found) > 0 {
		t.Errorf("the API server has refused requests:\n%s", strings.Join(found, "\n"))
	}
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Error("the log mentions requests that were refused")
	}
	refused := newTask("refused", 1, "1s")
	refused.Spec.Priority = "missing"
	s.create(refused)
	s.waitForMessage("refused", "missing")
	for _, sentence := range []string{"a node is not ready", "are tried again every minute", "GPUQueues allow are not enforced", "no Pods are moved"} {
		if log := c.log.String(); strings.Count(log, sentence) != 1 {
			t.Errorf("the log says %d times, want once, what is left out: %s", strings.Count(log, sentence), sentence)
		}
	}
}
