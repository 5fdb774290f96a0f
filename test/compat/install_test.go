// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

func (c *testCluster) testVersion(t *testing.T) {
	info, err := c.kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Major + "." + info.Minor; got != c.release.minor || !strings.HasPrefix(info.GitVersion, "v"+c.release.minor+".") {
		t.Errorf("the API server is of version %s, %s; want %s", got, info.GitVersion, c.release.minor)
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("%d nodes, error %v", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		if got := nodes.Items[i].Status.NodeInfo.KubeletVersion; got != info.GitVersion {
			t.Errorf("node %s says that its kubelet is of version %s, want that of the API server, %s", nodes.Items[i].Name, got, info.GitVersion)
		}
	}
}

// testManifests applies what the documents tell users to apply. A field that the API server does not
// know is an error or a warning, by kubectl's default --validate.
func (c *testCluster) testManifests(t *testing.T) {
	for _, folder := range []string{"artifacts", "artifacts/gpuaccess", "artifacts/priorities", "artifacts/dashboard"} {
		if output := c.kubectl(t, "apply", "--kustomize="+folder); strings.Contains(output, "Warning") {
			t.Errorf("%s:\n%s", folder, output)
		}
	}
	classes, err := c.kube.SchedulingV1().PriorityClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int32{}
	for i := range classes.Items {
		values[classes.Items[i].Name] = classes.Items[i].Value
	}
	low, medium, high := values["gpu-low-priority"], values["gpu-medium-priority"], values["gpu-high-priority"]
	if low >= medium || medium >= high {
		t.Errorf("priorities %d, %d and %d, want them to rise", low, medium, high)
	}
}

// testDriverManifests applies those of the DRA driver, which needs Kubernetes 1.36: shares of GPUs are
// no part of older APIs.
func (c *testCluster) testDriverManifests(t *testing.T) {
	output, err := c.tryKubectl(t, "apply", "--kustomize=artifacts/dradriver")
	if c.release.before(t, "1.36") {
		if err == nil || !strings.Contains(output, `The DeviceClass "gpu-share.falldio.com" is invalid`) || strings.Count(output, "is invalid") > 1 {
			t.Errorf("want nothing refused but the class of shares, got error %v:\n%s", err, output)
		}
		return
	}
	if err != nil || strings.Contains(output, "Warning") {
		t.Errorf("error %v:\n%s", err, output)
	}
}

// testCustomResources compares the definitions with the manifests: an API server drops what it does not know.
func (c *testCluster) testCustomResources(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(programs.Root(), "artifacts", "crds", "falldio.com_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, want); err != nil {
			t.Fatal(err)
		}
		got, err := c.extensions.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), want.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Spec.Versions, got.Spec.Versions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
		for _, condition := range got.Status.Conditions {
			bad := condition.Type == apiextensionsv1.NonStructuralSchema || condition.Type == apiextensionsv1.KubernetesAPIApprovalPolicyConformant
			if good := condition.Status == apiextensionsv1.ConditionTrue; good == bad {
				t.Errorf("%s: %s is %s: %s", want.Name, condition.Type, condition.Status, condition.Message)
			}
		}
	}
}

// testPolicies waits until all expressions have been checked against the types of this version.
func (c *testCluster) testPolicies(t *testing.T) {
	policies := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	list, err := policies.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < 8 {
		t.Fatalf("%d policies, want those of artifacts and of artifacts/priorities; error %v", len(list.Items), err)
	}
	for i := range list.Items {
		name := list.Items[i].Name
		c.eventually(t, "the policy "+name+" is checked", func() (bool, string) {
			policy, err := policies.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			if policy.Status.ObservedGeneration != policy.Generation || policy.Status.TypeChecking == nil {
				return false, policy.Status.String()
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("policy %s, %s: %s", name, warning.FieldRef, warning.Warning)
			}
			return true, ""
		})
	}
}
