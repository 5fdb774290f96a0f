// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

// TestTheAPIServerWarnsAboutNoPolicy creates all admission policies of the manifests, without their
// bindings. The API server checks their expressions against the types of all kinds that they match.
func TestTheAPIServerWarnsAboutNoPolicy(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	policies := s.cluster.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for _, policy := range manifestPolicies(t) {
		t.Run(policy.Name, func(t *testing.T) {
			name := s.namespace + "-" + policy.Name
			copied := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policy.Spec}
			if _, err := policies.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := policies.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
			var checked *admissionregistrationv1.ValidatingAdmissionPolicy
			s.eventually("the policy "+name+" is checked", func() (bool, string) {
				var err error
				checked, err = policies.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return false, err.Error()
				}
				return checked.Status.ObservedGeneration == checked.Generation && checked.Status.TypeChecking != nil, checked.Status.String()
			})
			for _, warning := range checked.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
			}
		})
	}
}

// manifestPolicies returns the policies of all manifests.
func manifestPolicies(t *testing.T) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	for _, pattern := range []string{"rbac/*policy.yaml", "*/policy.yaml", "*/*/policy.yaml"} {
		files, err := filepath.Glob(filepath.Join(programs.Root(), "artifacts", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no policies in %s: %v", pattern, err)
		}
		for _, file := range files {
			policies = append(policies, policiesIn(t, file)...)
		}
	}
	return policies
}

func policiesIn(t *testing.T, file string) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		err := decoder.Decode(policy)
		if errors.Is(err, io.EOF) {
			return policies
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if policy.Kind == "ValidatingAdmissionPolicy" {
			policies = append(policies, policy)
		}
	}
}
