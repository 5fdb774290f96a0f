// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// The cluster has no Kueue. Whether it should have one is told by the rights that the controller has, also to a
// controller that starts when Kueue is gone.
func TestATaskInAQueueOfKueueStartsWithoutKueueOnlyIfItIsNotExpected(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	inQueue := func(name string) *v1.GPUTask {
		task := newTask(name, 1, "1s")
		task.Labels = map[string]string{kueue.LabelQueue: "team"}
		return task
	}
	s.create(inQueue("unexpected"))
	s.waitForPhase("unexpected", v1.PhaseSucceeded)

	other := newSuite(t)
	rbac := other.cluster.kube.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "kueue"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{kueue.Group}, Resources: []string{kueue.Workloads}, Verbs: []string{"list", "watch"}},
	}}
	if _, err := rbac.Roles(other.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kueue"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "gpu-controller-system", Name: "gpu-controller"}},
	}
	if _, err := rbac.RoleBindings(other.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	other.startController()
	other.create(inQueue("expected"))
	other.waitForMessage("expected", "waiting for Kueue, whose API kueue.x-k8s.io/v1beta2 is not served")
	if pods := other.podsOf("expected"); len(pods) > 0 {
		t.Errorf("the task has %d Pods", len(pods))
	}
	if err := rbac.RoleBindings(other.namespace).Delete(t.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other.waitForPhase("expected", v1.PhaseSucceeded)
}
