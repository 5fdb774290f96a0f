// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// TestWhatNodesSayOfTheirGPUsComesFromTheirAgents checks the field managers of the
// labels, and the inventories of all nodes of the profile.
func TestWhatNodesSayOfTheirGPUsComesFromTheirAgents(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	nodes, err := s.cluster.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: v1.LabelGPUModel + "=h100-80gb-hbm3"})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 24 {
		t.Fatalf("%d nodes are labelled with the model, want 24", len(nodes.Items))
	}
	nodeOf := map[string]string{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if managers := managersOf(node, "f:"+v1.LabelGPUModel); fmt.Sprint(managers) != "[nodeagent]" {
			t.Errorf("the label of node %s is managed by %v, want nodeagent", node.Name, managers)
		}
		for label, want := range map[string]string{
			v1.LabelGPUCount: "8", v1.LabelGPUMemory: "81559", v1.LabelGPUHealth: "Healthy", v1.LabelGPUCUDA: "12.8",
		} {
			if got := node.Labels[label]; got != want {
				t.Errorf("node %s has the label %s=%q, want %q", node.Name, label, got, want)
			}
		}
		for _, gpu := range inventoryOf(t, node).GPUs {
			if other := nodeOf[gpu.UUID]; other != "" {
				t.Errorf("GPU %s is on node %s and on node %s", gpu.UUID, other, node.Name)
			}
			nodeOf[gpu.UUID] = node.Name
		}
	}
	if len(nodeOf) != 24*8 {
		t.Errorf("the inventories have %d GPUs, want %d", len(nodeOf), 24*8)
	}
}

// TestAFaultInTheFileIsSeenOnTheNode breaks a GPU as described in
// docs/localcluster.md and heals it again.
func TestAFaultInTheFileIsSeenOnTheNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const name = "rtx4090-1"
	faults := filepath.Join(s.cluster.Dir, "gpu-faults.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(faults, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("- {node: rtx4090-1, gpu: 1, fault: XID, xid: 79}\n")
	node := s.waitForNode(name, "one of two GPUs is broken", func(node *corev1.Node) bool {
		return node.Labels[v1.LabelGPUHealth] == "Degraded"
	})
	gpus := inventoryOf(t, node).GPUs
	if len(gpus) != 2 || gpus[0].Fault != nil || gpus[1].Fault == nil || gpus[1].Fault.Reason != "XID79" {
		t.Errorf("the inventory is %+v", gpus)
	}
	s.eventually("the node has an Event that names the XID", func() (bool, string) {
		events, err := s.cluster.kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return false, err.Error()
		}
		var texts []string
		for i := range events.Items {
			texts = append(texts, events.Items[i].Reason+": "+events.Items[i].Message)
		}
		all := strings.Join(texts, "\n")
		return strings.Contains(all, "XID79") || strings.Contains(all, "XID 79"), all
	})
	write("")
	s.waitForNode(name, "both GPUs are healthy", func(node *corev1.Node) bool {
		return node.Labels[v1.LabelGPUHealth] == "Healthy"
	})
}

// checkTheAgentRepairs recreates a node under the same name, as autoscalers do, and
// expects the agent to restore its labels and its inventory.
func (s *suite) checkTheAgentRepairs(name string) {
	s.Helper()
	nodes := s.cluster.kube.CoreV1().Nodes()
	complete := func(node *corev1.Node) bool { return node.Labels[v1.LabelGPUHealth] == "Healthy" }
	before := s.waitForNode(name, "it is labelled", complete)
	if err := nodes.Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	bare := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"type": "kwok", corev1.LabelHostname: name},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Allocatable: before.Status.Allocatable, Capacity: before.Status.Capacity},
	}
	if _, err := nodes.Create(s.Context(), bare, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	after := s.waitForNode(name, "it is labelled again", complete)
	if before.UID == after.UID {
		s.Error("the node was not recreated")
	}
	if was, is := before.Annotations[inventory.Annotation], after.Annotations[inventory.Annotation]; was != is {
		s.Errorf("the inventory was %s and is %s", was, is)
	}
}

func (s *suite) waitForNode(name, what string, holds func(*corev1.Node) bool) *corev1.Node {
	s.Helper()
	var node *corev1.Node
	s.eventually("node "+name+": "+what, func() (bool, string) {
		var err error
		if node, err = s.cluster.kube.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		return holds(node), fmt.Sprint(node.Labels, node.Annotations)
	})
	return node
}

func inventoryOf(t *testing.T, node *corev1.Node) *inventory.Inventory {
	t.Helper()
	parsed, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		t.Fatalf("node %s: %v", node.Name, err)
	}
	return parsed
}

// managersOf returns who manages a field, given in the notation of managed
// fields.
func managersOf(node *corev1.Node, field string) []string {
	var managers []string
	for _, entry := range node.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.String(), `"`+field+`"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// TestTheAgentLeavesTheDriverAloneForTheGPUOperator labels a Node as NVIDIA's MIG manager does.
func TestTheAgentLeavesTheDriverAloneForTheGPUOperator(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const name = "rtx4090-0"
	condition := func(status corev1.ConditionStatus, reason string) func(*corev1.Node) bool {
		return func(node *corev1.Node) bool {
			return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == v1.ConditionGPUHealthy && c.Status == status && c.Reason == reason
			})
		}
	}
	s.waitForNode(name, "it is healthy", condition(corev1.ConditionTrue, "AllHealthy"))
	s.patchNode(name, `{"metadata": {"labels": {"nvidia.com/mig.config.state": "pending"}}}`)
	defer s.patchNode(name, `{"metadata": {"labels": {"nvidia.com/mig.config.state": null}}}`)
	s.waitForNode(name, "the driver is closed", condition(corev1.ConditionUnknown, "DriverPaused"))
	node := s.waitForNode(name, "its GPUs are not offered", func(node *corev1.Node) bool {
		gpus := inventoryOf(t, node).GPUs
		return len(gpus) == 2 && gpus[0].Health != inventory.Healthy && gpus[1].Health != inventory.Healthy
	})
	if node.Labels[v1.LabelGPUModel] == "" || node.Labels[v1.LabelGPUCount] == "" {
		t.Errorf("the Node has lost its labels: %v", node.Labels)
	}
	s.patchNode(name, `{"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}}`)
	s.waitForNode(name, "the driver is open again", condition(corev1.ConditionTrue, "AllHealthy"))
}
