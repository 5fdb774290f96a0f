// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// TestTheNodesGPUsAreGivenOutOverDRA installs the DRA driver besides, moves the node to it by its
// label, and runs a gang.
func TestTheNodesGPUsAreGivenOutOverDRA(t *testing.T) {
	s := newScene(t)
	s.installEverything()
	simulated := s.simulation("--recovery-period=2s")
	s.install("dradriver.yaml", map[string][]map[string]any{"dradriver": simulated, "nodeagent.*": simulated})
	s.allocateBy(v1.AllocationDRA)
	s.Cleanup(func() { s.allocateBy("") })
	driver := s.waitForPods("dradriver", 1)
	s.isConfined(&driver[0])
	s.waitForGPUs(0)

	s.createGang("over-dra", 2, 2)
	for name := range s.waitForGang("over-dra", 2) {
		pod := s.podOf(name)
		if pod.Status.ExtendedResourceClaimStatus == nil {
			t.Errorf("Pod %s has its GPUs without a claim", name)
		}
	}
	s.hadAllPermissions()
	s.deleteGang("over-dra")
	s.allocateBy("")
	s.waitForGPUs(gpus)
}

// TestThePageIsServedInTheCluster installs the page besides.
func TestThePageIsServedInTheCluster(t *testing.T) {
	s := newScene(t)
	s.installEverything()
	s.install("dashboard.yaml", nil)
	page := s.waitForPods("gputask-dashboard", 1)
	s.isConfined(&page[0])
	// The page has made its certificate itself.
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := http.Client{Timeout: 10 * time.Second, Transport: insecure}
	response, err := client.Get("https://" + page[0].Status.PodIP + ":8443/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || len(content) == 0 {
		t.Errorf("the page: %s, %d bytes, %v", response.Status, len(content), err)
	}
	s.hadAllPermissions()
}

// allocateBy sets, or removes, the label by which the node's GPUs are given out.
func (s *scene) allocateBy(value string) {
	s.Helper()
	label := "null"
	if value != "" {
		label = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, v1.LabelGPUAllocation, label)
	_, err := s.node.Kube.CoreV1().Nodes().Patch(s.background(), node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// deleteGang deletes a task and waits until its Pods are gone.
func (s *scene) deleteGang(name string) {
	s.Helper()
	if err := s.node.Tasks.FalldioV1().GPUTasks(metav1.NamespaceDefault).Delete(s.background(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("the Pods of GPUTask "+name+" are gone", func() (bool, string) {
		pods, err := s.node.Kube.CoreV1().Pods(metav1.NamespaceDefault).List(s.background(), metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + name})
		return err == nil && len(pods.Items) == 0, fmt.Sprint(err)
	})
}
