// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// This covers what the agent of one node may do with Nodes. All requests are dry runs.
func TestAnAgentMayChangeOnlyWhatIsItsOwnOnItsOwnNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tests := map[string]struct {
		agentOf string // the node in the agent's token
		node    string
		patch   string
		refusal string // part of the error; empty if it is allowed
	}{
		"its labels":                        {"h100-0", "h100-0", `{"metadata": {"labels": {"falldio.com/gpu-health": "Degraded"}}}`, ""},
		"taking its labels away":            {"h100-0", "h100-0", `{"metadata": {"labels": {"falldio.com/gpu": null}}}`, ""},
		"its annotation":                    {"h100-0", "h100-0", `{"metadata": {"annotations": {"falldio.com/gpu-inventory": "{}"}}}`, ""},
		"the labels of another node":        {"h100-0", "h100-1", `{"metadata": {"labels": {"falldio.com/gpu-health": "Degraded"}}}`, "nodeagent of node h100-0 must not change what belongs to another node"},
		"a label that is not its own":       {"h100-0", "h100-0", `{"metadata": {"labels": {"falldio.com/node-pool": "mine"}}}`, "nodeagent changes only the labels"},
		"taking another's label away":       {"h100-0", "h100-0", `{"metadata": {"labels": {"kubernetes.io/hostname": null}}}`, "nodeagent changes only the labels"},
		"a label that looks like its own":   {"h100-0", "h100-0", `{"metadata": {"labels": {"falldio.com/gpu-pool": "mine"}}}`, "nodeagent changes only the labels"},
		"an annotation that is not its own": {"h100-0", "h100-0", `{"metadata": {"annotations": {"x": "y"}}}`, "nodeagent changes only the annotations"},
		"the annotation that belongs to Pods": {"h100-0", "h100-0", `{"metadata": {"annotations": {"falldio.com/gpu-assignment": "{}"}}}`,
			"nodeagent changes only the annotations"},
		"a taint":          {"h100-0", "h100-0", `{"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}`, "nodeagent must not change the spec"},
		"cordoning":        {"h100-0", "h100-0", `{"spec": {"unschedulable": true}}`, "nodeagent must not change the spec"},
		"a finalizer":      {"h100-0", "h100-0", `{"metadata": {"finalizers": ["falldio.com/x"]}}`, "nodeagent must not change finalizers and owners"},
		"an owner":         {"h100-0", "h100-0", `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "h100-1", "uid": "1"}]}}`, "nodeagent must not change finalizers and owners"},
		"no node in token": {"", "h100-0", `{"metadata": {"labels": {"falldio.com/gpu-health": "Degraded"}}}`, "nodeagent needs a token that is bound to a Node"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.asAgentOf(test.agentOf).CoreV1().Nodes().Patch(t.Context(), test.node, types.MergePatchType, []byte(test.patch), dryRun())
			expectRefusal(t, err, test.refusal)
		})
	}
}

// This covers the status of Nodes. All requests are dry runs.
func TestAnAgentMayChangeOneConditionOfItsOwnNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const condition = `{"type": "GPUHealthy", "status": "False", "reason": "NodeReboot", "message": "x"}`
	tests := map[string]struct {
		agentOf, node string
		patch         string
		refusal       string // part of the error; empty if it is allowed
	}{
		"its condition":                 {"h100-0", "h100-0", `{"status": {"conditions": [` + condition + `]}}`, ""},
		"that of another node":          {"h100-0", "h100-1", `{"status": {"conditions": [` + condition + `]}}`, "nodeagent of node h100-0 must not change what belongs to another node"},
		"no node in token":              {"", "h100-0", `{"status": {"conditions": [` + condition + `]}}`, "nodeagent needs a token that is bound to a Node"},
		"the kubelet's condition":       {"h100-0", "h100-0", `{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`, "nodeagent changes only the condition GPUHealthy"},
		"the message of another one":    {"h100-0", "h100-0", `{"status": {"conditions": [` + condition + `, {"type": "Ready", "message": "x"}]}}`, "nodeagent changes only the condition GPUHealthy"},
		"a condition that is not there": {"h100-0", "h100-0", `{"status": {"conditions": [{"type": "Other", "status": "True"}]}}`, "nodeagent changes only the condition GPUHealthy"},
		"removing another one":          {"h100-0", "h100-0", `{"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}`, "nodeagent changes only the condition GPUHealthy"},
		"how many GPUs there are":       {"h100-0", "h100-0", `{"status": {"capacity": {"falldio.com/gpu": "100"}}}`, "nodeagent changes only the condition GPUHealthy"},
		"its address":                   {"h100-0", "h100-0", `{"status": {"addresses": [{"type": "ExternalIP", "address": "10.9.9.9"}]}}`, "nodeagent changes only the condition GPUHealthy"},
		"its kubelet's port":            {"h100-0", "h100-0", `{"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}`, "nodeagent changes only the condition GPUHealthy"},
		"a label on the way": {"h100-0", "h100-0", `{"metadata": {"labels": {"falldio.com/gpu-health": "Degraded"}}, "status": {"conditions": [` + condition + `]}}`,
			"nodeagent must not change labels and annotations together with the status"},
		"a finalizer on the way": {"h100-0", "h100-0", `{"metadata": {"finalizers": ["falldio.com/x"]}, "status": {"conditions": [` + condition + `]}}`,
			"nodeagent must not change finalizers and owners"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.asAgentOf(test.agentOf).CoreV1().Nodes().Patch(t.Context(), test.node, types.StrategicMergePatchType, []byte(test.patch), dryRun(), "status")
			expectRefusal(t, err, test.refusal)
		})
	}
}

// The agent applies it, so that it owns no more than that.
func TestAnAgentAppliesAndRemovesItsCondition(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	nodes := s.asAgentOf("h100-0").CoreV1().Nodes()
	apply := metav1.PatchOptions{FieldManager: "nodeagent-condition-test", Force: new(true), DryRun: []string{metav1.DryRunAll}}
	for _, conditions := range []string{`[{"type": "GPUHealthy", "status": "True", "reason": "AllHealthy", "message": "x"}]`, `[]`} {
		patch := []byte(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h100-0"}, "status": {"conditions": ` + conditions + `}}`)
		if _, err := nodes.Patch(t.Context(), "h100-0", types.ApplyPatchType, patch, apply, "status"); err != nil {
			t.Errorf("applying %s: %v", conditions, err)
		}
	}
}

func TestAnAgentMayChangeOneAnnotationOfPodsOnItsNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.createPod("here", "h100-0")
	s.createPod("there", "h100-1")
	s.createPod("nowhere", "")
	const assignment = `{"metadata": {"annotations": {"falldio.com/gpu-assignment": "{}"}}}`
	tests := map[string]struct {
		pod, patch string
		refusal    string
	}{
		"the assignment":                          {"here", assignment, ""},
		"the assignment on another node":          {"there", assignment, "must not change what belongs to another node"},
		"the assignment of a Pod without a node":  {"nowhere", assignment, "must not change what belongs to another node"},
		"a label":                                 {"here", `{"metadata": {"labels": {"falldio.com/gpu": "x"}}}`, "nodeagent changes only the labels"},
		"another annotation":                      {"here", `{"metadata": {"annotations": {"x": "y"}}}`, "nodeagent changes only the annotations"},
		"the annotation that belongs to its Node": {"here", `{"metadata": {"annotations": {"falldio.com/gpu-inventory": "{}"}}}`, "nodeagent changes only the annotations"},
		"its deadline":                            {"here", `{"spec": {"activeDeadlineSeconds": 1}}`, "nodeagent must not change the spec"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.asAgentOf("h100-0").CoreV1().Pods(s.namespace).Patch(t.Context(), test.pod, types.MergePatchType, []byte(test.patch), dryRun())
			expectRefusal(t, err, test.refusal)
		})
	}
}

// This covers what needs no policy, because the role does not permit it.
func TestAnAgentHasNoFurtherRights(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.createPod("here", "h100-0")
	agent := s.asAgentOf("h100-0").CoreV1()
	patch := []byte(`{"status": {"phase": "Failed"}}`)
	_, status := agent.Pods(s.namespace).Patch(t.Context(), "here", types.MergePatchType, patch, dryRun(), "status")
	_, secrets := agent.Secrets(s.namespace).List(t.Context(), metav1.ListOptions{})
	for what, err := range map[string]error{
		"change the status of a Pod": status,
		"read Secrets":               secrets,
		"delete its Node":            agent.Nodes().Delete(t.Context(), "h100-0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
		"delete a Pod on its Node":   agent.Pods(s.namespace).Delete(t.Context(), "here", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("an agent may %s: %v", what, err)
		}
	}
}

func dryRun() metav1.PatchOptions { return metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}} }

func expectRefusal(t *testing.T, err error, text string) {
	t.Helper()
	expectRefusalBy(t, "nodeagent", err, text)
}

// expectRefusalBy fails the test unless a policy has refused a request with the text; with none,
// unless it was allowed.
func expectRefusalBy(t *testing.T, policy string, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("refused: %v", err)
	case text != "" && err == nil:
		t.Errorf("not refused, want %q", text)
	case text != "" && (!strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")):
		t.Errorf("refused with %v, want our policy and %q", err, text)
	}
}

// asAgentOf returns a client that impersonates the agent on a node, with the user info
// of its token.
func (s *suite) asAgentOf(node string) kubernetes.Interface {
	s.Helper()
	config := rest.CopyConfig(s.cluster.config)
	config.Impersonate.UserName = "system:serviceaccount:nodeagent-system:nodeagent"
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	return client
}

// createPod creates a Pod on a node, or one that nobody schedules.
func (s *suite) createPod(name, node string) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, SchedulerName: "none", Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}
	if _, err := s.cluster.kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(fmt.Errorf("creating Pod %s: %w", name, err))
	}
}
