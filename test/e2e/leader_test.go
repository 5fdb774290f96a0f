// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestASecondControllerTakesOver runs two controllers of a namespace, and with the lease of that
// namespace. The standby must take over within seconds, both when the
// leader shuts down and releases its lease and when it is killed.
func TestASecondControllerTakesOver(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.allowLease()
	census := s.takeCensus()
	elect := []string{
		"--leader-elect=true", "--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
	}
	leader := s.startController(elect...)
	s.create(newTask("first", 1, "1s"))
	s.waitForPhase("first", v1.PhaseSucceeded)
	standby := s.startController(elect...)
	holder := s.leaseHolder()
	s.create(newTask("stays", 2, "forever"))
	s.waitForPhase("stays", v1.PhaseRunning)

	begin := time.Now()
	if err := stopProcess(leader.command); err != nil {
		t.Fatalf("the leader ended with: %v", err)
	}
	s.waitForNewHolder(holder)
	t.Logf("hand-over after SIGTERM: %v", time.Since(begin).Round(time.Millisecond))
	s.create(newTask("second", 1, "1s"))
	s.waitForPhase("second", v1.PhaseSucceeded)

	holder = s.leaseHolder()
	third := s.startController(elect...)
	begin = time.Now()
	standby.kill()
	s.waitForNewHolder(holder)
	t.Logf("hand-over after SIGKILL: %v", time.Since(begin).Round(time.Millisecond))
	s.create(newTask("third", 1, "1s"))
	s.waitForPhase("third", v1.PhaseSucceeded)

	if doubles := census.doubles(); len(doubles) > 0 {
		t.Errorf("Pods were created more than once: %v", doubles)
	}
	if err := stopProcess(third.command); err != nil {
		t.Errorf("the last leader ended with: %v", err)
	}
}

// lease is the name of the lease of controllers of the suite's namespace.
func (s *suite) lease() string { return "gpu-controller-" + s.namespace }

// allowLease lets controllers use that lease, as docs/controller.md says.
func (s *suite) allowLease() {
	s.Helper()
	const namespace = "gpu-controller-system"
	meta, rbac := metav1.ObjectMeta{Name: s.lease()}, s.cluster.kube.RbacV1()
	_, err := rbac.Roles(namespace).Create(s.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{s.lease()}, Verbs: []string{"get", "update"},
	}}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	_, err = rbac.RoleBindings(namespace).Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "gpu-controller", Namespace: namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		err := errors.Join(rbac.RoleBindings(namespace).Delete(ctx, meta.Name, metav1.DeleteOptions{}), rbac.Roles(namespace).Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		if err != nil {
			s.Errorf("deleting the rights to the lease: %v", err)
		}
	})
}

func (s *suite) leaseHolder() string {
	s.Helper()
	lease, err := s.cluster.kube.CoordinationV1().Leases("gpu-controller-system").Get(s.Context(), s.lease(), metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (s *suite) waitForNewHolder(old string) {
	s.Helper()
	s.eventually("another controller holds the lease", func() (bool, string) {
		holder := s.leaseHolder()
		return holder != "" && holder != old, fmt.Sprintf("%q does", holder)
	})
}
