// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestANodeWithABrokenGPUIsTaintedUntilItIsHealthy breaks a GPU of the node on which a task runs. The
// agent reports it, gpu-controller taints the node, Kubernetes evicts the Pod, and the task goes
// on elsewhere. Tainting is for all nodes of a cluster, so the test has one of its own.
func TestANodeWithABrokenGPUIsTaintedUntilItIsHealthy(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--nodes=name=h100,model=h100-80gb-hbm3,count=2,gpus=4,gpu-memory=81559Mi",
		"--controller="+programs.Binary("gpu-controller"), "--controller-arg=--retry-backoff=1s", "--controller-arg=--reschedule-unhealthy=false",
		"--controller-arg=--taint-unhealthy-gpus=NoExecute", "--controller-arg=--taint-unhealthy-gpus-when=Degraded")
	s.create(newTask("train", 1, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")[0]
	broken := before.Spec.NodeName

	faults := filepath.Join(s.cluster.Dir, "gpu-faults.yaml")
	if err := os.WriteFile(faults, fmt.Appendf(nil, "- {node: %s, gpu: 3, fault: XID, xid: 79}\n", broken), 0o600); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(broken, "it is tainted", func(node *corev1.Node) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == v1.TaintGPUUnhealthy && taint.Value == v1.GPUsDegraded && taint.Effect == corev1.TaintEffectNoExecute
		})
	})
	s.waitForPods("train", "its Pod runs on the other node", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].UID != before.UID && pods[0].Spec.NodeName != broken && pods[0].Status.Phase == corev1.PodRunning
	})

	if err := os.WriteFile(faults, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.waitForNode(broken, "it is no longer tainted", func(node *corev1.Node) bool { return len(node.Spec.Taints) == 0 })
}
