// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// setLabelOfPods has a policy set a label of all Pods of the suite's namespace when they are created, until the end of
// the test.
func (s *suite) setLabelOfPods(label, value string) {
	s.Helper()
	ctx, policies := s.Context(), s.cluster.kube.AdmissionregistrationV1()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: fmt.Sprintf("Object{metadata: Object.metadata{labels: {%q: %q}}}", label, value)},
			}},
		},
	}
	if _, err := policies.MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := policies.MutatingAdmissionPolicyBindings().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting the binding: %v", err)
		}
		if err := policies.MutatingAdmissionPolicies().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting the policy: %v", err)
		}
	})
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: s.namespace},
	}
	if _, err := policies.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("the policy is in force", func() (bool, string) {
		pod, err := s.cluster.kube.CoreV1().Pods(s.namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, err.Error()
		}
		return pod.Labels[label] == value, fmt.Sprint(pod.Labels)
	})
}

func TestAPolicyMayChangeTheLabelsOfPodsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.setLabelOfPods("app", "billing")
	s.create(newTask("train", 2, "1s"))
	s.waitForPhase("train", v1.PhaseSucceeded)
	pods, err := s.cluster.kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=billing"})
	if err != nil || len(pods.Items) != 2 {
		t.Errorf("%d Pods have the label of the policy, %v", len(pods.Items), err)
	}
}

func TestAPolicyThatChangesWhatTheControllerReliesOnIsNamed(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.setLabelOfPods(v1.LabelTask, "other")
	task := s.create(newTask("train", 1, "1s"))
	s.waitForMessage("train", `an admission policy or a webhook changes the label falldio.com/gputask ("train", now "other") of the Pod: exempt the Pods of GPUTasks from it`)
	s.waitForEvent(task, "PodChanged")
	s.waitForPhase("train", v1.PhasePending)
	s.eventually("no Pod is left", func() (bool, string) {
		pods, err := s.cluster.kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0, fmt.Sprint(err)
	})
}
